"""Corpora larger than memory: millions of pairs made, prepared and trained on; what memory that takes, how fast pairs come.

The same recipe trains on the whole corpus and on its first 10,000 pairs; both are streamed. Memory is what all processes of
a run have for themselves, and their part of what they share (PSS), looked at every fifth of a second.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

import yaml

from benchmarks.measure import ROOT, machine, parser, told

FILE, FEW = 500_000, 10_000
MOST, MORE, TIMES = 1024.0, 200.0, 10.0
"""Aims: MiB of preparation, MiB of training above a small corpus, and how many times as fast as training pairs come."""
SAYS = {
    "en": (
        "pairs",
        "preparing, seconds",
        "preparing, memory",
        "training, memory",
        "target tokens/s",
        "Prepared at {:,.0f} pairs a second. Training took {:,.0f} MiB more than on the small corpus; batches alone come"
        " {:,.0f} times as fast as training eats them.",
    ),
    "zh": (
        "句对",
        "准备，秒",
        "准备，内存",
        "训练，内存",
        "目标词元/秒",
        "准备每秒 {:,.0f} 对。训练比小语料多用 {:,.0f} MiB，单独取批的速度是训练消耗速度的 {:,.0f} 倍。",
    ),
}
WORDS = 20_000


def make(folder: Path, count: int) -> None:
    """Files of pairs, about 12 words a side, none twice; nothing where they are there already."""
    folder.mkdir(parents=True, exist_ok=True)
    if len(list(folder.glob("part-*.tsv"))) == -(-count // FILE):
        return
    draw = random.Random(1)
    letters = "abcdefghijklmnoprstuvw"
    words = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(WORDS)]
    others = ["".join(draw.choices(letters, k=draw.randint(2, 9))) for _ in range(WORDS)]
    weights = list(accumulate(1 / (rank + 10) for rank in range(WORDS)))
    clauses = []
    for _ in range(100_000):
        numbers = draw.choices(range(WORDS), cum_weights=weights, k=draw.randint(3, 9))
        clauses.append((" ".join(words[n] for n in numbers), " ".join(others[n] for n in reversed(numbers))))
    for at in range(0, count, FILE):
        with (folder / f"part-{at // FILE:04d}.tsv").open("w", encoding="utf-8") as file:
            for number in range(at, min(at + FILE, count)):
                (a, b), (c, d) = draw.choice(clauses), draw.choice(clauses)
                file.write(f"{a} {number} {c}\t{d} {number} {b}\n")
    (folder / "valid.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in clauses[:200]), encoding="utf-8")


def recipe(folder: Path, few: bool, updates: int) -> Path:
    """The recipe on all pairs, or on the first few."""
    data: dict[str, Any] = {"train": "part-*.tsv", "valid": "valid.tsv", "stream": True}
    training = {"max_steps": updates, "evaluate_every": 10**9, "save_every": 10**9, "seed": 3}
    training["log_every"] = max(updates // 4, 1)
    values = {
        "data": data | ({"max_pairs": FEW} if few else {}),
        "tokenizer": {"vocab_size": 8000},
        "model": {"architecture": "transformer", "size": "tiny"},
        "training": training,
        "evaluation": {"during": False},
    }
    path = folder / ("few.yaml" if few else "all.yaml")
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def watched(command: list[str], cache: Path) -> dict[str, float]:
    """Run a command; seconds, and the most MiB that its processes had together."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "REGARD_CACHE": str(cache)}
    began, most = time.monotonic(), 0.0
    process = subprocess.Popen(command, env=environment)
    while process.poll() is None:
        most = max(most, sum(_pss(one) for one in _family(process.pid)))
        time.sleep(0.2)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return {"seconds": time.monotonic() - began, "mib": most / 1024}


def _family(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        try:
            children = [task / "children" for task in Path(f"/proc/{one}/task").iterdir()]
            found += [int(child) for path in children for child in path.read_text().split()]
        except OSError:
            continue
    return found


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().split("\n")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def prepare(path: str) -> None:
    """Only prepare a recipe's data."""
    from regard.training.prepare import prepare as prepared
    from regard.training.recipe import load_recipe

    print(prepared(load_recipe(path)).summary(), file=sys.stderr)


def pipeline(path: str, updates: int) -> None:
    """Batches alone: target tokens a second of a recipe's stream, one thread."""
    from regard.batches import Stream
    from regard.training.prepare import limits
    from regard.training.prepare import prepare as prepared
    from regard.training.recipe import load_recipe

    its = load_recipe(path)
    data = prepared(its)
    budget = its.training.batch_tokens
    assert isinstance(budget, int)
    stream = Stream(data.train, budget, 1, objective=data.objective, limits=limits(its))
    next(stream)
    began = time.monotonic()
    tokens = sum(batch.target_tokens for batch in islice(stream, updates))
    print(f'{{"target_per_second": {tokens / (time.monotonic() - began)}}}')


def table(report: dict[str, Any], language: str) -> str:
    """Both corpora, and what one costs above the other."""
    *head, sentence = SAYS[language]
    lines = [f"| {' | '.join(head)} |", "|" + "---:|" * len(head)]
    for count, its in ((FEW, report["few"]), (report["pairs"], report["all"])):
        cells = [f"{count:,}", f"{its['prepare']['seconds']:,.0f}", f"{its['prepare']['mib']:,.0f} MiB"]
        cells += [f"{its['train']['mib']:,.0f} MiB", f"{its['train']['target_per_second']:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    told = sentence.format(report["pairs_per_second"], report["more_mib"], report["times_training"])
    return "\n".join([*lines, "", told]) + "\n"


def measured(folder: Path, place: Path, updates: int) -> dict[str, Any]:
    """Preparation and training of both corpora, from an empty cache, and batches alone of the whole one."""
    cache, own, found = place / "cache", [sys.executable, "-W", "ignore", "-m"], {}
    for name in ("few", "all"):
        path, output = recipe(folder, name == "few", updates), place / name
        found[name] = {"prepare": watched([*own, "benchmarks", "corpus", "--step", "prepare", str(path)], cache)}
        found[name]["train"] = watched([*own, "regard", "train", str(path), f"output={output}"], cache)
        log = (output / "log.jsonl").read_text(encoding="utf-8").split("\n")
        last = [line for line in log if "target_per_second" in line][-1]
        found[name]["train"]["target_per_second"] = float(json.loads(last)["target_per_second"])
    line = [*own, "benchmarks", "corpus", "--updates", str(20 * updates), "--step", "pipeline", str(path)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "REGARD_CACHE": str(cache)}
    said = subprocess.run(line, check=True, capture_output=True, text=True, env=environment).stdout
    return found | {"pipeline": json.loads(said.strip().split("\n")[-1])}


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    its = parser("corpus", __doc__, rounds=1)
    its.add_argument("--pairs", type=int, default=10_000_000)
    its.add_argument("--updates", type=int, default=200)
    its.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "regard" / "corpus")
    its.add_argument("--step", nargs=2, metavar=("NAME", "RECIPE"), help="what this program calls itself for")
    options = its.parse_args(arguments)
    if options.step:
        name, path = options.step
        prepare(path) if name == "prepare" else pipeline(path, options.updates)
        return 0
    folder = options.folder / str(options.pairs)
    make(folder, options.pairs)
    report: dict[str, Any] = {"benchmark": "corpus", "machine": machine(), "pairs": options.pairs}
    with tempfile.TemporaryDirectory(dir=folder) as place:
        report |= measured(folder, Path(place), options.updates)
    every, few = report["all"], report["few"]
    report["more_mib"] = every["train"]["mib"] - few["train"]["mib"]
    report["times_training"] = report["pipeline"]["target_per_second"] / every["train"]["target_per_second"]
    report["pairs_per_second"] = options.pairs / every["prepare"]["seconds"]
    report["reached"] = {
        "preparation": every["prepare"]["mib"] <= MOST,
        "training": report["more_mib"] <= MORE,
        "pipeline": report["times_training"] >= TIMES,
    }
    return told(report, options.json)
