"""BLEU after equal settings and unequal time: Eole with the shape, batches, rate and data of regard's recipe, and regard
in a share of its time.

Eole trains for `--minutes`, with Adam, whose rate falls to zero within them: how many updates those are is measured first.
regard trains the recipe as it stands for `--share` of the time. Both have the same pieces, translate the test set with beam
5, and are scored alike. --threads: of each; --beside: both at once, one beside the other, where each has its own cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from benchmarks import environments, promises
from benchmarks.data import export, prepared
from benchmarks.measure import ROOT, machine, parser, told
from benchmarks.peers import tools

RECIPE = "multi30k-en-fr"
SHAPE = {"num_layers": 3, "decoder_layers": 2, "d_model": 128, "d_ff": 256, "num_heads": 4, "dropout": 0.1}
BATCH, PIECES, RATE, WARMUP = 1500, 4000, 4e-3, 150
"""As the recipe has them, but for the rate: Adam's best of those tried with regard, as Eole has no Muon."""
EOLE = ("-W", "ignore", "-c", "from eole.bin.main import main; main()")
SEARCH = {"beam_size": 5, "batch_size": 64, "max_length": 100, "world_size": 0}
SHORT, LONGER = 20, 120
"""Updates of the two trainings that tell what one takes."""


def settings(data: Path, folder: Path, updates: int) -> dict[str, Any]:
    """Eole's settings, from those of the throughput benchmark."""
    its = tools.eole("transformer", data, folder, SHAPE, (BATCH, updates))
    its["model"] |= {"encoder": {"layers": SHAPE["num_layers"]}, "decoder": {"layers": SHAPE["decoder_layers"]}}
    its["training"] |= {
        "learning_rate": RATE,
        "decay_method": "cosine",
        "warmup_steps": WARMUP,
        "adam_beta1": 0.9,
        "adam_beta2": 0.98,
        "adam_eps": 1e-9,
        "max_grad_norm": 1.0,
        "attention_dropout": [0.0],
    }
    return its | {"report_every": 50}


def _ran(command: list[str], folder: Path, threads: int) -> float:
    """Seconds that a command takes. RuntimeError: it fails."""
    environment = os.environ | {
        "OMP_NUM_THREADS": str(threads),
        "PYTHONPATH": str(ROOT / "src"),
    }
    began = time.perf_counter()
    with (folder / "log").open("ab") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder, env=environment)
    if done.returncode:
        text = (folder / "log").read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{text[-2000:]}")
    return time.perf_counter() - began


def eole(data: Path, folder: Path, minutes: float, threads: int) -> dict[str, Any]:
    """Train and translate; `hypotheses`, `minutes` that training took without its start, `updates`."""
    python = environments.interpreter("eole")

    def train(updates: int) -> float:
        path = folder / "settings.yaml"
        path.write_text(yaml.safe_dump(settings(data, folder, updates), sort_keys=False), encoding="utf-8")
        return _ran([python, *EOLE, "train", "--config", str(path)], folder, threads)

    short, longer = train(SHORT), train(LONGER)
    each = (longer - short) / (LONGER - SHORT)
    start = max(0.0, short - SHORT * each)
    updates = round(60 * minutes / each)
    print(f"eole: {each:.3f} s an update, {updates:,} of them", file=sys.stderr, flush=True)
    took = train(updates) - start
    out = folder / "test.out"
    given = {"model_path": folder / "model", "src": data / "test.pieces.en", "output": out, **SEARCH}
    _ran(
        [python, *EOLE, "predict", *(part for key, value in given.items() for part in (f"--{key}", str(value)))],
        folder,
        threads,
    )
    lines = out.read_text(encoding="utf-8").split("\n")[:-1]
    return {"hypotheses": [plain(line) for line in lines], "minutes": took / 60, "updates": updates}


def plain(pieces: str) -> str:
    """The text that pieces spell."""
    return pieces.replace(" ", "").replace("▁", " ").strip()


def regard(folder: Path, minutes: float, threads: int, given: list[str]) -> dict[str, Any]:
    """The recipe in so many minutes."""
    said = [f"training.max_minutes={minutes}", f"training.threads={threads}", f"output={folder / 'run'}", *given]
    _ran([sys.executable, "-m", "regard", "train", RECIPE, *said], folder, threads)
    lines = (folder / "run" / "test.hyp").read_text(encoding="utf-8").split("\n")[:-1]
    return {"hypotheses": lines, "minutes": minutes}


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    its = parser("quality", __doc__)
    its.add_argument("--minutes", type=float, default=20.0, help="that Eole trains")
    its.add_argument("--share", type=float, default=0.6, help="of them that regard trains")
    its.add_argument("--threads", type=int, default=2, help="of each")
    its.add_argument("--beside", action="store_true", help="both at once")
    its.add_argument("--set", action="append", default=[], help="further settings of the recipe that names the data")
    its.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "regard" / "benchmarks")
    options = its.parse_args(arguments)
    given = [f"tokenizer.vocab_size={PIECES}", f"training.batch_tokens={BATCH}", *options.set]
    data = export(options.cache, given)
    references = [[pair.target for pair in prepared(options.cache, given).test_pairs]]
    minutes = options.minutes, options.minutes * options.share
    with tempfile.TemporaryDirectory() as kept, ThreadPoolExecutor(2 if options.beside else 1) as pool:
        folders = [Path(kept) / name for name in ("eole", "regard")]
        for folder in folders:
            folder.mkdir()
        theirs = pool.submit(eole, data, folders[0], minutes[0], options.threads)
        ours = pool.submit(regard, folders[1], minutes[1], options.threads, options.set)
        found = {"regard": ours.result(), "eole": theirs.result()}
    report = {"benchmark": "quality", "machine": machine(), "threads": options.threads, "beside": options.beside}
    report["versions"] = {"eole": environments.version("eole", environments.interpreter("eole"))}
    return told(report | {"results": {name: scored(one, references) for name, one in found.items()}}, options.json)


def scored(one: dict[str, Any], references: list[list[str]]) -> dict[str, Any]:
    """What a training gave, with scores for its hypotheses."""
    from regard.evaluation.scores import as_json, score

    lines = one.pop("hypotheses")
    return one | {"scores": as_json(score(lines, references, ["bleu", "chrf"], "fr"))}


def table(report: dict[str, Any], language: str) -> str:
    """The two trainings as a table of a page."""
    head = {"en": ("system", "minutes", "BLEU", "chrF"), "zh": ("系统", "分钟", "BLEU", "chrF")}[language]
    rows = [
        (name, f"{its['minutes']:.1f}", *(f"{its['scores'][metric]['value']:.2f}" for metric in ("bleu", "chrf")))
        for name, its in report["results"].items()
    ]
    return promises.markdown(head, rows)
