"""What tests of several processes let torchrun run: a few updates of toy recipes in many settings, one launch for all.

`python forked.py COUNT 0 many_ranks.py FOLDER` trains each of VARIANTS, and what else there is, and writes
FOLDER/ranks-N.json for N processes; with names of variants only those, into FOLDER/few-N.json.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.distributed._tools.mem_tracker import MemTracker

from regard.batches import Stream, ordered
from regard.training import machines, parallel, ranks
from regard.training.journal import read_log
from regard.training.loop import forward_backward, steps, train
from regard.training.plan import keeps_most, plan
from regard.training.prepare import prepare
from regard.training.recipe import Recipe, load_recipe
from regard.training.run import Run

STEPS = 5
FSDP = ["training.parallel=fsdp", "training.optimizer=adamw"]
MIXTURE = ["training.accumulate=4"]
VARIANTS: dict[str, tuple[str, list[str]]] = {
    "plain": ("toy", []),
    "accumulated": ("toy", ["training.accumulate=3"]),
    "muon": ("toy", ["training.optimizer=muon", "training.accumulate=2"]),
    "frozen": ("toy", ["training.freeze=encoder.embed.*", "training.ema=0.9"]),
    "cut": ("toy", FSDP),
    "cut_muon": ("toy", ["training.parallel=fsdp", "training.optimizer=muon", "training.accumulate=2"]),
    "cut_lora": ("low", FSDP),
    "cut_everything": (
        "toy",
        [*FSDP, "training.activation_checkpointing=true", "training.ema=0.9", "training.accumulate=2"],
    ),
    "mixture": ("mixture", MIXTURE),
    "cut_mixture": ("mixture", [*MIXTURE, *FSDP]),
    "half": ("toy", [*FSDP, "training.precision=bf16"]),
}


def recipe_of(folder: Path, name: str) -> Recipe:
    """A variant's recipe: without dropout, which each rank draws for itself."""
    file, settings = VARIANTS[name]
    settings = settings if ranks.started() else [one for one in settings if "parallel" not in one]
    return load_recipe(folder / f"{file}.yaml", ["model.dropout=0.0", *settings])


def tried(folder: Path, name: str) -> dict[str, Any]:
    """Losses, gradient norms, a look at the validation data and the sum of squares of the weights after some updates; the
    same sum, and the number types, of what is held beneath."""
    recipe = recipe_of(folder, name)
    output = folder / f"{name}-{ranks.world()}"
    run = Run(recipe, ranks.in_turn(lambda: prepare(recipe)), output)
    seen = [(step.loss, step.grad_norm) for step in islice(steps(run), STEPS)]
    held = [p.detach() for p in run.plain.parameters()]
    masters = sum(float(parallel.whole(p).double().square().sum()) for p in held)
    states = [value for state in run.optimizer.state.values() for value in state.values()]
    from regard.training import tasks

    with run.in_use() as model:
        look = tasks.find(recipe.task.kind).look(model, recipe, run.prepared)
        squares = sum(float(p.detach().double().square().sum()) for p in model.parameters())
    saved = run.save()
    found = {"seen": seen, "loss": look.loss, "samples": look.samples, "squares": squares, "masters": masters}
    return found | {"kinds": sorted({str(t.dtype) for t in [*held, *states]}), "saved": str(saved)}


def agreed() -> dict[str, Any]:
    """What the functions of `ranks` give on each process."""
    found = {
        "total": ranks.total([1.0, ranks.rank()]),
        "spread": ranks.spread(list(range(7)), lambda some: [2 * one for one in some]),
        "few": ranks.spread([5], lambda some: [one + 1 for one in some]),
        "first": ranks.first(lambda: f"rank {ranks.rank()}"),
        "turn": ranks.in_turn(lambda: ranks.rank()),
    }
    return {"each": ranks.gather(found)}


WIDE = ["model.d_model=64", "model.d_ff=256", "model.num_layers=4", "training.batch_tokens=400", "training.accumulate=2"]
"""A model and batches large enough that their tensors are what takes memory."""


def measured(folder: Path) -> dict[str, Any]:
    """Bytes of tensors that a step has at most, and what was forecast for it. One process plans, several measure."""
    path = folder / "needs.json"
    if not ranks.started():
        recipe = load_recipe(folder / "toy.yaml", ["model.dropout=0.0", "training.optimizer=adamw", *WIDE])
        path.write_text(json.dumps(asdict(machines.needs_of(recipe, plan(recipe, 1)))), encoding="utf-8")
        return {}
    needs = machines.Needs(**json.loads(path.read_text(encoding="utf-8")) | {"accumulate": ranks.world()})
    values = {"count": ranks.world(), "memory_gb": 80.0, "peak_tflops": 1.0, "host_gb_s": 1.0, "network_gb_s": 1.0}
    found = {}
    for kind in ("ddp", "fsdp"):
        for again in (False, True):
            needed = machines.forecast(needs, machines.Machines.model_validate(values), kind, again)
            chosen = [f"training.parallel={kind}", f"training.activation_checkpointing={str(again).lower()}"]
            found[f"{kind}-{again}"] = {"forecast": needed.memory, "peak": _peak(folder, chosen)}
    return found


def _peak(folder: Path, settings: list[str]) -> int:
    """By torch's tracker, of the largest batch that the plan looked at, on each rank a whole one."""
    recipe = load_recipe(folder / "toy.yaml", ["model.dropout=0.0", "training.optimizer=adamw", *WIDE, *settings])
    run = Run(recipe, ranks.in_turn(lambda: prepare(recipe)), folder / "measured")
    stream = Stream(run.prepared.train, run.stream.budget, recipe.training.seed, objective=run.prepared.objective)
    longest = ordered(run.prepared.train, run.stream.budget, objective=run.prepared.objective)
    batches = [*(next(stream) for _ in range(4)), next(iter(longest))]
    largest = keeps_most(parallel.Summed(run.description.build(), 0.0), batches)
    forward_backward(run, [largest])  # so that the optimiser's memory is there
    run.update()
    tracker = MemTracker()
    tracker.track_external(run.model, run.optimizer)
    with tracker:
        for _ in range(2):  # in the first it gets to know DDP's buckets, which are there already
            forward_backward(run, [largest])
            run.update()
            tracker.reset_mod_stats()
    return tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]


def goes_on(folder: Path) -> None:
    """One process trains 12 updates, and 8 in another folder; several go on there under FSDP2."""
    settings = ["model.dropout=0.0", "training.optimizer=adamw", "training.schedule=constant"]
    more = load_recipe(folder / "toy.yaml", [*settings, "training.max_steps=12"])
    if not ranks.started():
        train(more, folder / "unbroken")
        train(load_recipe(folder / "toy.yaml", settings), folder / "broken")
        return
    output = folder / f"broken-{ranks.world()}"
    ranks.first(lambda: None if output.exists() else shutil.copytree(folder / "broken", output))
    cut = load_recipe(folder / "toy.yaml", [*settings, "training.max_steps=12", "training.parallel=fsdp"])
    train(cut, output, resumed=True)


EARLY = {
    "max_steps": 40,
    "evaluate_every": 2,
    "patience": 2,
    "monitor": "chrf",
    "learning_rate": "0.000001",
    "average": "best",
    "average_count": 2,
}
"""Too small a rate to become better: a training that ends by patience, as the mean of its best checkpoints."""


def ended(folder: Path, name: str, **training: Any) -> dict[str, Any]:
    """A whole training: its updates, best value and log."""
    settings = [f"training.{key}={value}" for key, value in training.items()]
    output = folder / f"{name}-{ranks.world()}"
    result = train(load_recipe(folder / "toy.yaml", ["model.dropout=0.0", *settings]), output)
    log = [{key: its for key, its in entry.items() if not key.endswith("per_second")} for entry in read_log(output)]
    return {"steps": result.steps, "best": result.best, "reason": result.reason, "log": log if ranks.main() else []}


def main(place: str, *names: str) -> None:
    """Run the variants of these names, or everything, and write what came out."""
    folder = Path(place)
    torch.set_num_threads(1)
    ranks.join(cpu=True)
    found: dict[str, Any] = {"ranks": agreed()}
    if not names:
        found |= {"whole": ended(folder, "whole"), "early": ended(folder, "early", **EARLY)}
        goes_on(folder)
        found["memory"] = measured(folder)
    for name in names or VARIANTS:
        found[name] = tried(folder, name)
    if ranks.main():
        path = folder / f"{'few' if names else 'ranks'}-{ranks.world()}.json"
        path.write_text(json.dumps(found), encoding="utf-8")
    ranks.leave()
