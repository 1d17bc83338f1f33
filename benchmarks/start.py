"""How long programs take to start: from nothing to the help, to the first translation, and what imports cost in peers.

Every command is a process of its own; the first of each is not counted, so that the files are in memory.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks import environments, promises
from benchmarks.measure import ROOT, Run, figures, in_turns, machine, parser, summary, told

IMPORTS = {
    "transformers": "from transformers import MarianMTModel",
    "ctranslate2": "import ctranslate2",
    "eole": "import eole.bin.main",
    "opennmt": "import onmt.bin.train",
    "joeynmt": "import joeynmt.training",
}


PROMISED = {"regard --help": "≤ 0.3 s"}


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    its = parser("start", __doc__)
    its.add_argument("--model", default="", help="folder of a translator, for the first translation")
    its.add_argument("--peers", default="transformers,ctranslate2", help=f"of {', '.join(IMPORTS)}")
    options = its.parse_args(arguments)
    regard = [sys.executable, "-m", "regard"]
    systems = {
        "python": _timed([sys.executable, "-c", "pass"]),
        "import torch": _timed([sys.executable, "-c", "import torch"]),
        "regard --help": _timed([*regard, "--help"]),
        "import regard": _timed([sys.executable, "-c", "import regard"]),
    }
    if options.model:
        systems["regard translate"] = _timed([*regard, "translate", options.model, "Two dogs run ."])
    versions = {}
    for peer in filter(None, options.peers.split(",")):
        python = environments.interpreter(peer, options.installed)
        versions[peer] = environments.version(peer, python)
        systems[peer] = _timed([python, "-W", "ignore", "-c", IMPORTS[peer]])
    for run in systems.values():
        run()
    found = in_turns(systems, options.rounds, "seconds")
    report: dict[str, Any] = {"benchmark": "start", "machine": machine(), "versions": versions, "systems": figures(found)}
    if options.model:
        pairs = zip(found["regard translate"], found["import torch"], strict=True)
        report["after_torch"] = summary([ours["seconds"] - bare["seconds"] for ours, bare in pairs])
    return told(report, options.json)


NAMES = {
    "python": ("Python alone", "仅 Python"),
    "regard translate": ("first translation", "第一句译文"),
    "transformers": ("import of a model of transformers", "导入 transformers 的一个模型"),
    "ctranslate2": ("`import ctranslate2`", "`import ctranslate2`"),
}


def table(report: dict[str, Any], language: str) -> str:
    """The figures as a table of a page."""
    rows: list[promises.Row] = []
    for name, its in report["systems"].items():
        rows.append((NAMES.get(name, (f"`{name}`",) * 2), _told(its["seconds"]), PROMISED.get(name, "")))
    if "after_torch" in report:
        names = "first translation, less `import torch`", "第一句译文，减去 `import torch`"
        rows.append((names, _told(report["after_torch"]), "≤ 0.7 s"))
    return promises.table(rows, language)


def _told(seconds: dict[str, float]) -> str:
    return f"{seconds['median']:.2f} s ({seconds['min']:.2f}–{seconds['max']:.2f})"


def _timed(command: list[str]) -> Callable[[], Run]:
    import os

    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what pip installs is compiled: so must be what runs from the checkout

    def run() -> Run:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
        assert process.stderr is not None
        text = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {text.decode()[-500:]}")
        return {"seconds": time.perf_counter() - began, "peak_mib": used.ru_maxrss / 1024}

    return run
