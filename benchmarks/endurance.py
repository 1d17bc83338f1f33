"""Does anything grow in long runs? `python -m benchmarks endurance`: memory, file handles and threads over 10,000 updates
and 100,000 translated sentences, after a tenth of them and at the end."""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import machine
from benchmarks.reliability import toy
from regard.files import write_json
from regard.training import loop
from regard.translator import load


@dataclass(frozen=True)
class Sample:
    """A moment of a process. megabytes: of resident memory."""

    done: int
    megabytes: float
    handles: int
    threads: int


def sample(done: int) -> Sample:
    """This process now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    megabytes = pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    return Sample(done, round(megabytes, 1), len(os.listdir("/proc/self/fd")), threading.active_count())


def trained(place: Path, updates: int) -> tuple[list[Sample], Path]:
    """Samples of one training of a toy, with evaluations and checkpoints; and its folder."""
    recipe = toy(place, {"max_steps": updates, "save_every": 200, "evaluate_every": 500, "log_every": 10})
    found: list[Sample] = []
    before, every = loop.forward_backward, max(updates // 10, 1)

    def watched(run: Any, group: list[Any]) -> tuple[float, int]:
        done = run.progress.step
        if done % every == 0 or done == updates - 1:  # what the end of a training loads to score and draw is no growth
            found.append(sample(done + (done == updates - 1)))
        return before(run, group)

    loop.forward_backward = watched
    try:
        loop.train(recipe, place / "run", bar=False)
    finally:
        loop.forward_backward = before
    return found, place / "run"


def translated(folder: Path, sentences: int) -> list[Sample]:
    """Samples of a translator that is asked for so many sentences, never twice the same thousand."""
    translator, draw = load(folder, "cpu"), random.Random(1)
    found, every, chunk = [], max(sentences // 10, 1), 100
    for done in range(0, sentences, chunk):
        if done % every == 0:
            found.append(sample(done))
        lines = [" ".join(draw.choice("abcdef") for _ in range(draw.randint(1, 8))) for _ in range(chunk)]
        if len(translator.translate(lines, num_beams=1)) != chunk:
            raise RuntimeError("as many answers as sentences were promised")
    return [*found, sample(sentences)]


def growth(found: list[Sample]) -> dict[str, float]:
    """How much more there is at the end than after the first tenth."""
    early, late = found[1], found[-1]
    return {key: round(asdict(late)[key] - asdict(early)[key], 1) for key in ("megabytes", "handles", "threads")}


def grows(found: list[Sample]) -> bool:
    """Whether something grows: a handle, a thread, or a twentieth of the memory."""
    more = growth(found)
    return more["handles"] > 0 or more["threads"] > 0 or more["megabytes"] > found[1].megabytes / 20


def main(arguments: list[str]) -> int:
    """Measure; exit code 1 if something grows."""
    parser = argparse.ArgumentParser(prog="benchmarks endurance", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--json", help="write the report here; '-': stdout")
    its = parser.parse_args(arguments)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        os.environ["REGARD_CACHE"] = f"{name}/cache"
        training, folder = trained(Path(name), its.updates)
        found = {"updates": training, "sentences": translated(folder, its.sentences)}
    document: dict[str, Any] = {"machine": machine()}
    for what, samples in found.items():
        document[what] = {"samples": [asdict(one) for one in samples], "growth": growth(samples), "grows": grows(samples)}
        first, last = samples[1], samples[-1]
        print(
            f"{last.done:,} {what}: {first.megabytes:.0f} to {last.megabytes:.0f} MB,"
            f" {first.handles} to {last.handles} handles, {first.threads} to {last.threads} threads",
            file=sys.stderr,
        )
    if its.json:
        write_json(its.json, document)
    return 1 if any(grows(samples) for samples in found.values()) else 0
