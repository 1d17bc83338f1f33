"""What a recipe will cost, known before it runs: parameters, memory, products a token, time, by trying a few steps."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from regard.architecture import Model
from regard.batches import Batch, ordered
from regard.inspection.flops import UNCOUNTED
from regard.training.loop import forward_backward, steps
from regard.training.moments import Held, held_by
from regard.training.parallel import blocks_of, checkpointing
from regard.training.prepare import Prepared, prepare
from regard.training.recipe import Recipe
from regard.training.run import Run

WARM = 2
"""First steps that are not timed: they meet cold caches and allocate the optimizer's memory."""


@dataclass(frozen=True)
class Memory:
    """Bytes. weights, gradients, optimizer, ema: as they are held. activations: the most that the largest of some batches,
    the longest sentences among them, has beside weights and complete gradients at a time of its forward or backward.
    peak: the most that this process had while it planned (its libraries and the data included), on a GPU the most that
    tensors took."""

    weights: int
    gradients: int
    optimizer: int
    ema: int
    activations: int
    peak: int

    @property
    def training(self) -> int:
        """What a training step needs for the model: all but the peak."""
        return self.weights + self.gradients + self.optimizer + self.ema + self.activations


@dataclass(frozen=True)
class Plan:
    """What a recipe will cost here.

    parameters: numbers learned, tied ones once; by_part: in the encoder, the decoder, the head, a tied matrix where it
    comes first. forward_flops: of the matrix products of a forward pass, a target token, padding included, over real
    batches; training_flops: three times that (the backward has two products for each). step_seconds: median of the timed
    steps. tokens_per_second: target tokens trained. flops_per_second: of the products, while training. epoch_steps: steps
    an epoch. steps: expected until the recipe ends, seconds: and how long they take, evaluations not counted; 0 if
    unknown. held, checkpointed: by the largest batch, without and with activation checkpointing; blocks: how many there
    are; largest: parameters of the largest, rest: of what is in none; update_tokens: target tokens of an update;
    batch_tokens: the budget of a batch.
    """

    parameters: int
    by_part: dict[str, int]
    memory: Memory
    forward_flops: float
    training_flops: float
    timed_steps: int
    step_seconds: float
    tokens_per_second: float
    flops_per_second: float
    fill: float
    epoch_steps: int
    steps: int
    seconds: float
    device: str
    threads: int
    held: Held
    checkpointed: Held
    blocks: int
    largest: int
    rest: int
    update_tokens: float
    batch_tokens: int

    def lines(self) -> list[str]:
        """For the terminal."""
        memory, million = self.memory, 1e6
        parts = ", ".join(f"{name} {count:,}" for name, count in self.by_part.items())
        held = {
            "weights": memory.weights,
            "gradients": memory.gradients,
            "optimizer": memory.optimizer,
            "running mean": memory.ema,
            "activations of the largest batch": memory.activations,
        }
        return [
            f"parameters  {self.parameters:,} ({parts})",
            f"memory      {_bytes(memory.training)} to train: "
            + ", ".join(f"{name} {_bytes(size)}" for name, size in held.items() if size),
            f"            this process took {_bytes(memory.peak)} at most while planning",
            f"products    {self.forward_flops / million:.2f} MFLOP a target token forward, "
            f"{self.training_flops / million:.2f} to train (padding included, batches {self.fill:.0%} full)",
            f"speed       {self.tokens_per_second:,.0f} target tokens a second, {self.flops_per_second / 1e9:.1f} GFLOP/s, "
            f"{self.step_seconds:.2f} s a step ({self.timed_steps} steps timed on {self.device}, {self.threads} threads)",
            f"time        {self.steps:,} steps ({self.steps / max(self.epoch_steps, 1):.1f} epochs of "
            f"{self.epoch_steps:,}), {_duration(self.seconds)} without evaluations",
        ]

    def json(self) -> dict[str, Any]:
        """One JSON-able object."""
        return asdict(self)


def plan(recipe: Recipe, count: int = 8, prepared: Prepared | None = None) -> Plan:
    """Plan a recipe by preparing its data, building its model, and timing `count` real steps on this machine.

    prepared: the data, if it is at hand. Nothing is kept but the caches of `prepare`. UserError as for training.
    """
    if recipe.training.threads:
        torch.set_num_threads(recipe.training.threads)
    prepared = prepare(recipe) if prepared is None else prepared
    with TemporaryDirectory() as folder:
        run = Run(recipe, prepared, Path(folder))
        some = [next(run.stream) for _ in range(4)]
        longest = next(iter(ordered(prepared.train, run.stream.budget, objective=prepared.objective, limits=run.limits)))
        flops, tokens = _forward_flops(run, some)
        run.plain.train()
        with run.autocast():
            largest = keeps_most(run.model, [batch.to(run.device) for batch in (*some, longest)])
        held, checkpointed = _held(run, largest)
        seconds, targets = _timed(run, count)
        memory = _memory(run, (checkpointed if recipe.training.activation_checkpointing else held).activations)
    blocks = [sum(p.numel() for p in block.parameters()) for block in blocks_of(run.plain)]
    step, per_token = median(seconds), flops / tokens
    speed = sum(targets) / sum(seconds)
    batches = -(-run.stream.batches // recipe.training.accumulate)
    expected, total = _expected(recipe, batches, step)
    count = sum(p.numel() for p in run.plain.parameters())
    return Plan(
        parameters=count,
        by_part=_by_part(run.plain),
        memory=memory,
        forward_flops=per_token,
        training_flops=3 * per_token,
        timed_steps=len(seconds),
        step_seconds=step,
        tokens_per_second=speed,
        flops_per_second=3 * per_token * speed,
        fill=run.stream.fill,
        epoch_steps=batches,
        steps=expected,
        seconds=total,
        device=str(run.device),
        threads=torch.get_num_threads(),
        held=held,
        checkpointed=checkpointed,
        blocks=len(blocks),
        largest=max(blocks, default=0),
        rest=count - sum(blocks),
        update_tokens=sum(targets) / len(targets),
        batch_tokens=run.stream.budget,
    )


def forward_flops(model: Model, batch: Batch) -> int:
    """FLOPs of the matrix products of a forward pass over a batch on the CPU, a multiplication and an addition as two.

    Elementwise work, softmax and norms are left out: their time is memory's. Padding is multiplied like the rest.
    """
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=UNCOUNTED) as counter:
            layouts = {"layout": batch.layout, "output_layout": batch.output_layout, "segments": batch.segments}
            model(batch.inputs, batch.outputs, **layouts)
    finally:
        model.train(training)
    return int(counter.get_total_flops())


def saved_bytes(model: nn.Module, forward: Any) -> int:
    """Bytes that calling `forward()` keeps for the backward: each storage once, the model's weights not at all."""
    weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        # held until the end: a storage that is freed could give its address to the next
        kept.setdefault(tensor.untyped_storage().data_ptr(), tensor)
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        forward()
    return sum(t.untyped_storage().nbytes() for address, t in kept.items() if address not in weights)


def keeps_most(model: nn.Module, batches: list[Batch]) -> Batch:
    """The batch whose forward keeps most for its backward. model: Batch -> its loss, whole and where the batches are."""
    return max(batches, key=lambda batch: saved_bytes(model, lambda: model(batch)))


def _forward_flops(run: Run, batches: list[Batch]) -> tuple[int, int]:
    """Of some batches, and their target tokens; counted on the CPU, whose kernels are all known."""
    model = run.description.build()
    return sum(forward_flops(model, batch) for batch in batches), sum(batch.target_tokens for batch in batches)


def _timed(run: Run, count: int) -> tuple[list[float], list[int]]:
    """Seconds and target tokens of `count` steps, after the first ones."""
    seconds, targets = [], []
    run.plain.train()
    going = steps(run)
    for number in range(WARM + count):
        with _watched(run) as watch:
            step = next(going)
        if number >= WARM:
            seconds.append(watch[0])
            targets.append(step.target_tokens)
    return seconds, targets


@contextmanager
def _watched(run: Run) -> Iterator[list[float]]:
    def now() -> float:
        if run.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    found, began = [0.0], now()
    yield found
    found[0] = now() - began


def _held(run: Run, batch: Batch) -> tuple[Held, Held]:
    """By a batch, without and with activation checkpointing; the same where a model has no blocks to compute anew. The
    model's blocks are left as the recipe has them."""
    blocks, found = blocks_of(run.plain), []
    for again in (False, True):
        with checkpointing(run.plain, again and bool(blocks)):
            found.append(held_by(run.plain, blocks, lambda: forward_backward(run, [batch])))
    return found[0], found[1]


def _memory(run: Run, activations: int) -> Memory:
    weights = sum(p.numel() * p.element_size() for p in run.plain.parameters())
    states = [t for held in run.optimizer.state.values() for t in held.values() if isinstance(t, Tensor)]
    average = sum(t.numel() * t.element_size() for t in (run.average or {}).values())
    optimizer = sum(t.numel() * t.element_size() for t in states)
    return Memory(weights, weights, optimizer, average, activations, _peak(run.device))


def _peak(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _by_part(model: Model) -> dict[str, int]:
    seen: set[int] = set()
    found = {}
    for name, part in (("encoder", model.encoder), ("decoder", model.decoder), ("head", model.head)):
        own = [] if part is None else [p for p in part.parameters() if id(p) not in seen]
        seen |= {id(p) for p in own}
        if own:
            found[name] = sum(p.numel() for p in own)
    return found


def _expected(recipe: Recipe, epoch_steps: int, step_seconds: float) -> tuple[int, float]:
    """Steps and seconds until the first of the recipe's limits."""
    its = recipe.training
    ends = []
    if its.max_steps:
        ends.append(its.max_steps)
    if its.max_epochs:
        ends.append(its.max_epochs * epoch_steps)
    if its.max_minutes:
        ends.append(int(60 * its.max_minutes / step_seconds))
    return (min(ends), min(ends) * step_seconds) if ends else (0, 0.0)


def _bytes(size: int) -> str:
    amount, unit = float(size), 0
    while amount >= 1000 and unit < 4:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.3g} {('B', 'kB', 'MB', 'GB', 'TB')[unit]}"


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"
