"""Peak memory of training and of decoding, from runs of the other benchmarks: one round of each, a few updates.

`python -m benchmarks memory [MODEL]`: training beside its peers, and with a model's folder decoding too.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import decode, promises, train
from benchmarks.measure import machine, parser, told


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    its = parser("memory", __doc__, rounds=1)
    its.add_argument("model", nargs="?", default="", help="folder of a translator")
    its.add_argument("--peers", default="torch,transformers", help="of training")
    its.add_argument("--systems", default="regard@1x2,transformers@1x2,ctranslate2:float32@1x2", help="of decoding")
    its.add_argument("--more", default="", help="further arguments of training, by spaces")
    options = its.parse_args(arguments)
    common = ["--rounds", str(options.rounds), *(["--installed"] if options.installed else [])]
    report: dict[str, Any] = {"benchmark": "memory", "machine": machine()}
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "figures.json")
        with contextlib.redirect_stdout(sys.stderr):
            train.main([*common, "--peers", options.peers, "--json", path, *options.more.split()])
        report["train"] = _peaks(path)
        if options.model:
            with contextlib.redirect_stdout(sys.stderr):
                decode.main([options.model, *common, "--systems", options.systems, "--json", path])
            report["decode"] = _peaks(path)
    return told(report, options.json)


def _peaks(path: str) -> dict[str, float]:
    systems = json.loads(Path(path).read_text(encoding="utf-8"))["systems"]
    return {name: round(found["peak_mib"]["median"], 1) for name, found in systems.items()}


def table(report: dict[str, Any], language: str) -> str:
    """The figures as a table of a page."""
    rows: list[promises.Row] = []
    for kind, names in (("train", ("training", "训练")), ("decode", ("translating", "翻译"))):
        peers = [its for name, its in report.get(kind, {}).items() if not name.startswith(("regard", "ctranslate2"))]
        for name, its in report.get(kind, {}).items():
            promised = f"≤ {min(peers):,.0f} MiB" if name.startswith("regard") and peers else ""
            rows.append(((f"{names[0]}, {name}", f"{names[1]}，{name}"), f"{its:,.0f} MiB", promised))
    return promises.table(rows, language)
