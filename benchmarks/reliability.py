"""Kill trainings at any moment: `python -m benchmarks reliability`. Can the resumed run be told from an unbroken one?

A chain is one training of a toy that is killed (-9), or told to stop by Ctrl-C, several times and resumed each time; between
two parts its newest checkpoint may be damaged. At its end, weights, log, test translations, best checkpoint, optimiser,
random states and the place in the data must equal the unbroken run's to the last bit, and nothing may lie about.
Children are forked, so that nothing is imported twice; they die by a signal to themselves at a chosen moment, or by the
parent's. Of several ranks one dies so, and the others are killed with it, as torchrun does.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import yaml
from safetensors.torch import load_file
from torch.nn.modules.module import register_module_forward_pre_hook

from benchmarks.forks import Processes, said
from benchmarks.measure import machine
from regard.files import write_json
from regard.training import loop, ranks, resume
from regard.training.journal import read_log
from regard.training.output import claim
from regard.training.recipe import Recipe, load_recipe
from regard.training.run import Run

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "two ranks": {"accumulate": 2},
    "two ranks, weights cut": {"parallel": "fsdp", "optimizer": "adamw"},
    "accumulation": {"accumulate": 3},
    "batches made on the spot": {"prefetch": 0},
    "other loaders when resumed": {"prefetch": None},
    "moving average": {"ema": 0.9},
    "mean of the best": {"average": "best", "average_count": 2},
    "mean of the last": {"average": "last", "average_count": 2, "keep_last": 1},
    "patience": {"patience": 3, "max_steps": 40, "evaluate_every": 2, "learning_rate": 3e-2},
}
"""Settings of `training` by the name of a case; None: drawn for each part of a chain."""
RANKS = {"two ranks": 2, "two ranks, weights cut": 2}
"""How many processes train together, where it is not one."""
PLACES = ("in a step", "after an update", "in an evaluation", "at a file")
MOMENTS = (*PLACES, "at any time", *(f"Ctrl-C {place}" for place in PLACES))
PARTS = 5
"""Most kills of one chain."""
MEMORY = Path("/dev/shm")
"""A file system in memory, where there is one: what a process that is killed has written is there all the same."""
CLOCKS = ("source_per_second", "target_per_second")
FILES = {"open", "shutil.rmtree"} | {
    f"os.{name}" for name in ("rename", "remove", "mkdir", "rmdir", "link", "scandir", "chmod")
}
"""Audit events that stand for an operation on files."""


@dataclass
class Report:
    """What a harness did. kills: by moment. damaged: checkpoints damaged between two parts. failures: in words."""

    chains: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    damaged: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)


def toy(place: Path, settings: dict[str, Any]) -> Recipe:
    """Forty pairs of letters and the same backwards, and a model of a few thousand weights."""
    draw = random.Random(1)
    for name, count in (("train", 40), ("valid", 6), ("test", 6)):
        words = ["".join(draw.choice("abcdef") for _ in range(draw.randint(2, 6))) for _ in range(count)]
        lines = "".join(f"{' '.join(word)}\t{' '.join(reversed(word))}\n" for word in words)
        (place / f"{name}.tsv").write_text(lines, encoding="utf-8")
    its = {"max_steps": 14, "batch_tokens": 40, "learning_rate": 3e-3, "warmup_steps": 2, "schedule": "linear", "threads": 1}
    its |= {"save_every": 3, "evaluate_every": 5, "log_every": 2, "keep_last": 2}
    recipe = {
        "data": {"source": "xx", "target": "yy", "train": "train.tsv", "valid": "valid.tsv", "test": "test.tsv"},
        "tokenizer": {"kind": "words", "vocab_size": 32},
        "model": {"architecture": "transformer", "num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "dropout": 0.3},
        "training": its | {key: value for key, value in settings.items() if value is not None},
        "search": {"num_beams": 2, "max_length": 12},
        "evaluation": {"max_sentences": 4, "samples": 1, "metrics": ["chrf"]},
    }
    path = place / "toy.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return load_recipe(path)


def armed(moment: str, number: int, output: Path) -> None:
    """Have this process die at the number-th time of a moment."""
    count = itertools.count(1)
    which = signal.SIGINT if moment.startswith("Ctrl-C") else signal.SIGKILL

    def tick(*_: object) -> None:
        if next(count) == number:
            os.kill(os.getpid(), which)

    watch(moment.removeprefix("Ctrl-C "), output, tick)


def watch(moment: str, output: Path, tick: Callable[..., None]) -> None:
    """Call `tick` whenever a moment comes."""
    if moment == "in a step":
        before = loop.forward_backward

        def step(run: Run, group: list[Any]) -> tuple[float, int]:
            found = before(run, group)
            tick()
            return found

        loop.forward_backward = step
    elif moment == "after an update":
        average = Run.average_step

        def averaged(run: Run) -> None:
            average(run)
            tick()

        Run.average_step = averaged  # type: ignore[method-assign]
    elif moment == "in an evaluation":
        find = loop.tasks.find

        def found(kind: str) -> Any:
            task = find(kind)
            return SimpleNamespace(prepare=task.prepare, look=_ticking(task.look, tick), test=_ticking(task.test, tick))

        loop.tasks.find = found
    elif moment == "at a file":

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            if event in FILES and any(output.name in str(one) for one in arguments[:2]):
                tick()

        sys.addaudithook(hook)


def _ticking(judge: Callable[..., Any], tick: Callable[..., None]) -> Callable[..., Any]:
    """A judgement of a model in which every part of the model that is run is a moment."""

    def judged(*arguments: Any) -> Any:
        hook = register_module_forward_pre_hook(tick)
        try:
            return judge(*arguments)
        finally:
            hook.remove()

    return judged


def fingerprint(output: Path) -> dict[str, Any]:
    """All of a finished run that may not depend on whether it was stopped."""
    newest = resume.found(output)[-1]
    tensors, facts = resume.read(newest)
    progress = facts["progress"]
    best = [resume.folder_of(output, step) for _, step in progress["best"]]
    own = json.loads((output / "regard.json").read_text(encoding="utf-8"))
    own["training"].pop("seconds")
    return {
        "weights": of_tensors(load_file(output / "model.safetensors")),
        "log": [{key: value for key, value in entry.items() if key not in CLOCKS} for entry in read_log(output)],
        "test": (output / "test.hyp").read_text(encoding="utf-8"),
        "regard.json": own,
        "config": (output / "config.json").read_text(encoding="utf-8"),
        "tokenizer": (output / "tokenizer.json").read_text(encoding="utf-8"),
        "best": [(one.name, of_tensors(load_file(one / "model.safetensors"))) for one in best],
        "optimiser and random states": of_tensors(tensors),
        "progress": {key: value for key, value in progress.items() if key != "elapsed"},
        "place": facts["stream"],
        "checkpoints": [folder.name for folder in resume.found(output)],
        "left behind": sorted(str(p.relative_to(output.parent)) for p in output.parent.rglob(".*")),
    }


def of_tensors(tensors: dict[str, torch.Tensor]) -> str:
    """A digest of named tensors."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype} {tuple(tensors[name].shape)}".encode())
        digest.update(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def harm(output: Path, draw: random.Random) -> str | None:
    """Damage the newest checkpoint of a run that has another; says how."""
    folders = resume.found(output)
    if len(folders) < 2:
        return None
    file = draw.choice(sorted(path for path in folders[-1].iterdir() if path.is_file()))
    how = draw.choice(("truncated", "a bit flipped", "missing"))
    if how == "missing":
        file.unlink()
    elif how == "truncated":
        os.truncate(file, draw.randrange(max(file.stat().st_size, 1)))
    else:
        data = bytearray(file.read_bytes())
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        file.write_bytes(data)
    return how


class Harness:
    """Chains of one case after another, until so many kills are done."""

    def __init__(self, place: Path, seed: int, cases: list[str] | None = None) -> None:
        self.place, self.draw, self.report, self.cases = place, random.Random(seed), Report(), cases or list(CASES)
        self.known: dict[str, tuple[dict[str, Any], dict[str, int], float]] = {}

    def run(self, kills: int) -> Report:
        """Kill so many times. At every failure the folder stays."""
        began = time.monotonic()
        for name in itertools.cycle(self.cases):
            self.chain(name, *self.unbroken(name))
            if self.report.kills.total() >= kills:
                break
        self.report.seconds = round(time.monotonic() - began, 1)
        return self.report

    def part(self, name: str, output: Path, kill: float | None = None, **arm: Any) -> int | None:
        """One training from its newest checkpoint, or its beginning, on."""
        recipe, count = self.recipe(name), RANKS.get(name, 1)
        victim = 0 if arm.get("moment", "").endswith("at a file") else self.draw.randrange(count)

        def work(rank: int) -> None:
            if arm and rank == victim:
                armed(output=output, **arm)
            ranks.join(cpu=True)
            ranks.first(lambda: claim(output, recipe, True))
            loop.train(recipe, output, resumed=True, bar=False)
            ranks.leave()

        return Processes(work, count).wait(kill=kill, victim=victim)

    def unbroken(self, name: str) -> tuple[dict[str, Any], dict[str, int], float]:
        """What a run of this case gives, how often each moment comes in it, and its seconds."""
        if name in self.known:
            return self.known[name]
        recipe, output, told = self.recipe(name), self.place / f"unbroken {name}" / "run", self.place / "counts.json"
        output.parent.mkdir()

        def work(rank: int) -> None:
            counts: Counter[str] = Counter()
            for moment in PLACES:
                watch(moment, output, lambda *_, moment=moment: counts.update([moment]))
            ranks.join(cpu=True)
            loop.train(recipe, output, bar=False)
            if ranks.main():
                told.write_text(json.dumps({"counts": counts, "modules": list(sys.modules)}), encoding="utf-8")
            ranks.leave()

        began = time.monotonic()
        if Processes(work, RANKS.get(name, 1)).wait() != 0:
            raise RuntimeError(f"{name}: the unbroken run fails: {said()}")
        seconds = time.monotonic() - began
        found = json.loads(told.read_text(encoding="utf-8"))
        for module in found["modules"]:  # so that the next processes need not
            with contextlib.suppress(Exception):
                importlib.import_module(module)
        self.known[name] = fingerprint(output), found["counts"], seconds
        return self.known[name]

    def recipe(self, name: str) -> Recipe:
        """The recipe of a case, with what is drawn for this part."""
        settings = {key: self.draw.randint(0, 4) if value is None else value for key, value in CASES[name].items()}
        return toy(self.place, settings)

    def chain(self, name: str, want: dict[str, Any], counts: dict[str, int], seconds: float) -> None:
        """One training, killed up to PARTS times."""
        output = self.place / f"chain {self.report.chains}" / "run"
        output.parent.mkdir()
        story = []
        for _ in range(PARTS):
            moment = self.draw.choice(MOMENTS)
            if moment == "at any time":
                code = self.part(name, output, kill=self.draw.uniform(0, seconds))
            else:
                number = self.draw.randint(1, max(2, counts[moment.removeprefix("Ctrl-C ")] // 2))
                code = self.part(name, output, moment=moment, number=number)
                moment = f"{moment} {number}"
            story.append(f"{moment}: {code}")
            if code not in (-signal.SIGKILL, 130):
                break
            self.report.kills[moment.rstrip(" 0123456789")] += 1
            how = harm(output, self.draw) if self.draw.random() < 0.2 else None
            if how is not None:
                self.report.damaged[how] += 1
                story.append(how)
        code = self.part(name, output)
        self.report.chains += 1
        self.report.cases[name] += 1
        wrong = [f"the last part ends with {code}: {said()}"] if code != 0 else []
        if not wrong and not resume.found(output):
            wrong = [f"no checkpoint is left: {said()}"]
        if not wrong:
            got = fingerprint(output)
            wrong = [f"{key}: {got[key]} instead of {want[key]}"[:600] for key in want if got[key] != want[key]]
        if wrong:
            self.report.failures.append(f"{name} in {output} ({'; '.join(story)}): {' | '.join(wrong)}")
        else:
            shutil.rmtree(output.parent)


def main(arguments: list[str]) -> int:
    """Run the harness; exit code 1 if a resumed run could be told from an unbroken one."""
    parser = argparse.ArgumentParser(prog="benchmarks reliability", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", action="append", choices=list(CASES), help="these alone")
    parser.add_argument("--place", type=Path, help="keep what failed here")
    parser.add_argument("--json", help="write the report here; '-': stdout")
    its = parser.parse_args(arguments)
    told = its.json if its.json in (None, "-") else Path(its.json).absolute()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
    torch.set_num_threads(1)
    loop.draw = lambda output: None  # the picture of the log: half of a toy's time
    kept, room = its.place is not None, MEMORY if os.access(MEMORY, os.W_OK) else None
    with contextlib.nullcontext(its.place) if kept else tempfile.TemporaryDirectory(dir=room) as name:
        place = Path(name).absolute()
        place.mkdir(parents=True, exist_ok=True)
        os.environ["REGARD_CACHE"] = str(place / "cache")
        os.chdir(place)
        report = Harness(place, its.seed, its.case).run(its.kills)
    facts = {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(report).items()}
    document = facts | {"machine": machine(), "total": report.kills.total(), "seed": its.seed}
    if told:
        write_json(told, document)
    kinds = ", ".join(f"{moment} {count}" for moment, count in report.kills.most_common())
    print(
        f"{report.kills.total()} kills ({kinds}) in {report.chains} trainings, {report.damaged.total()} checkpoints damaged,"
        f" {report.seconds:.0f} s: {len(report.failures)} resumed runs differ from the unbroken one",
        *report.failures,
        sep="\n",
        file=sys.stderr,
    )
    return 1 if report.failures else 0
