"""What a recipe costs on other machines: memory, time and communication under DDP and FSDP2, for any number of GPUs.

A model of it, in closed form; what it assumes stands in ASSUMPTIONS and is printed with every answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil, inf, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from regard.training.sections import Section, Whole
from regard.training.wording import keys_of, refuse
from regard.training.yaml_source import read_yaml

if TYPE_CHECKING:
    from regard.training.moments import Moment
    from regard.training.plan import Plan
    from regard.training.recipe import Recipe

ASSUMPTIONS = (
    "a GPU reaches `utilisation` of its peak at any size of batch, and padding is as in the recipe's own batches",
    "weights, gradients and the optimiser's memory are fp32; activations are the recipe's longest batch's in the recipe's"
    " precision, at each moment of its forward and backward as measured here, and grow with the tokens of a batch",
    "a collective runs as rings, within hosts first, then between them; DDP hides it behind the last backward pass, FSDP2"
    " behind all of the work, as far as `overlap` says; each costs `latency_us` for every doubling of the GPUs",
    "DDP holds all gradients all the time, in buckets of 25 MiB that are exchanged one by one, the first of 1 MiB",
    "FSDP2 gathers what is in no block once for a batch, each block for the forward and for the backward pass, and the next"
    " meanwhile; a block's gradients are exchanged when the backward pass has left it, after every batch, from a buffer that"
    " is there until the next block's",
    "one process has gradients as the backward pass finds them; so do pieces under FSDP2, unless a batch before left them",
    "GPUs work equally fast from one exchange to the next: nobody waits for a slower one",
    "activation checkpointing repeats the forward pass, one block at a time",
    "DDP and one process have a copy of the weights in the precision of the products, FSDP2 gathers them in that",
    "the optimiser works in place; evaluations, checkpoints and reading are not counted",
)
BUCKET = 25 * 2**20
"""Bytes that DDP exchanges at a time."""
FIRST = 2**20
"""… the first time."""
AGREED = 2
"""Collectives of an update that only agree on its tokens and its loss."""


class Machines(Section):
    """What there is to train on, from a YAML file."""

    name: str = Field(default="", description="what to call them")
    count: Whole = Field(gt=0, description="GPUs in all")
    per_host: Whole = Field(default=8, gt=0, description="GPUs of a host")
    memory_gb: float = Field(gt=0, description="memory of a GPU, in 10^9 bytes")
    overhead_gb: float = Field(default=1.5, ge=0, description="of it, what the context, libraries and gaps take")
    peak_tflops: float = Field(gt=0, description="products of a GPU in the recipe's precision, 10^12 a second, dense")
    utilisation: float = Field(default=0.35, gt=0, le=1, description="share of the peak that training reaches on one GPU")
    host_gb_s: float = Field(gt=0, description="between GPUs of a host: 10^9 bytes a second, each, one way")
    network_gb_s: float = Field(gt=0, description="between hosts: the same")
    latency_us: float = Field(default=10.0, ge=0, description="of a collective, for every doubling of the GPUs")
    overlap: float = Field(
        default=1.0, ge=0, le=1, description="share of the work that exchanges hide behind; 0 where the same cores do both"
    )
    price_hour: float | None = Field(default=None, ge=0, description="of a GPU")


def read_machines(path: str | Path) -> Machines:
    """The machines of a YAML file; UserError with file and line for what is wrong or unknown."""
    source = read_yaml(Path(path))
    try:
        return Machines.model_validate(source.values)
    except ValidationError as error:
        raise refuse(error, source, keys_of(Machines)) from None


@dataclass(frozen=True)
class Needs:
    """What a recipe needs, whatever it runs on. parameters: numbers; blocks: how many; largest: numbers of the largest
    block; rest: in no block.
    optimizer: bytes a parameter, the moving average included. moments, checkpointed: what a batch of `batch_tokens` holds
    from one moment to the next, without and with activation checkpointing; copies: bytes of weights in another number type
    meanwhile. flops: of a forward pass, a target token. update_tokens: target tokens of an update, accumulate: its batches.
    updates: until the recipe ends. half: bf16."""

    parameters: int
    blocks: int
    largest: int
    rest: int
    optimizer: float
    moments: tuple[Moment, ...]
    checkpointed: tuple[Moment, ...]
    copies: int
    batch_tokens: int
    flops: float
    update_tokens: float
    accumulate: int
    updates: int
    half: bool


def needs_of(recipe: Recipe, plan: Plan) -> Needs:
    """What was measured of a recipe here, as far as it holds elsewhere."""
    held = plan.memory
    return Needs(
        parameters=plan.parameters,
        blocks=plan.blocks,
        largest=plan.largest,
        rest=plan.rest,
        optimizer=(held.optimizer + held.ema) / plan.parameters,
        moments=plan.held.moments,
        checkpointed=plan.checkpointed.moments,
        copies=plan.held.copies,
        batch_tokens=plan.batch_tokens,
        flops=plan.forward_flops,
        update_tokens=plan.update_tokens,
        accumulate=recipe.training.accumulate,
        updates=plan.steps,
        half=recipe.training.precision != "fp32",
    )


@dataclass(frozen=True)
class Forecast:
    """One way to train on some GPUs. Bytes for each: weights, gradients, optimizer, activations, held (pieces that are whole
    for a moment), memory (the most at a time). Seconds of an update: compute, exchange (all of it), exposed (what is not
    hidden), step. volume: bytes that a GPU sends in an update. fits: whether memory is enough; batch_tokens: the most that
    do (0: none). days: of the whole training. cost: if there is a price."""

    kind: str
    checkpointing: bool
    gpus: int
    weights: float
    gradients: float
    optimizer: float
    activations: float
    held: float
    memory: float
    fits: bool
    batch_tokens: int
    compute: float
    exchange: float
    exposed: float
    step: float
    volume: float
    tokens_per_second: float
    days: float
    cost: float | None

    @property
    def hidden(self) -> bool:
        """Whether the exchange costs less than a twentieth of the work."""
        return self.exposed <= 0.05 * self.compute


def forecast(needs: Needs, machines: Machines, kind: str, checkpointing: bool = False, weak: bool = False) -> Forecast:
    """What `kind` ("ddp" or "fsdp") on all these GPUs costs. weak: each GPU reads what one would alone, so that updates grow
    with their number; otherwise they share the recipe's update."""
    gpus, count = machines.count, needs.parameters
    cut = gpus if kind == "fsdp" else 1
    batches = needs.accumulate * (gpus if weak else 1) / gpus  # of this GPU; parts of one where there are fewer than GPUs
    weights, gradients, optimizer = 4 * count / cut, 4 * count / cut, needs.optimizer * count / cut
    room = (machines.memory_gb - machines.overhead_gb) * 1e9 - weights - optimizer
    moments = _moments(needs, kind, gpus, checkpointing, batches > 1)
    kept, held, beside = max(((a * min(batches, 1.0), whole, other) for a, whole, other in moments), key=sum)
    memory = weights + optimizer + kept + held + beside
    tokens = needs.update_tokens * (gpus if weak else 1)
    passes = 4 if checkpointing else 3
    compute = passes * needs.flops * tokens / gpus / (machines.peak_tflops * 1e12 * machines.utilisation)
    exchange, volume = _exchange(needs, machines, kind, ceil(batches))
    hiding = machines.overlap * (compute if kind == "fsdp" else compute * 2 / passes / max(ceil(batches), 1))
    exposed = max(exchange - hiding, min(exchange, 0.02 * compute) if gpus > 1 else 0.0)
    step = compute + exposed
    days = needs.updates * step / 86_400 / (gpus if weak else 1)  # weak: the same data in fewer, larger updates
    return Forecast(
        kind=kind,
        checkpointing=checkpointing,
        gpus=gpus,
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        activations=kept,
        held=held,
        memory=memory,
        fits=kept + held + beside <= room,
        batch_tokens=max(int(min(_share(room - whole - other, a) for a, whole, other in moments) * needs.batch_tokens), 0),
        compute=compute,
        exchange=exchange,
        exposed=exposed,
        step=step,
        volume=volume,
        tokens_per_second=tokens / step,
        days=days,
        cost=None if machines.price_hour is None else days * 24 * gpus * machines.price_hour,
    )


def _moments(needs: Needs, kind: str, gpus: int, checkpointing: bool, there: bool) -> list[tuple[float, float, float]]:
    """Bytes on a GPU from one moment of a batch to the next, beside its weights and the optimiser's memory: activations;
    what FSDP2 has whole; gradients, and DDP's copies of weights. there: a batch before has left gradients."""
    size, narrow = 4.0 * needs.parameters, 2 if needs.half else 4
    some = needs.checkpointed if checkpointing else needs.moments
    if gpus == 1 or kind == "ddp":
        there = there or gpus > 1
        return [(a, 0.0, (size if there else float(opened + closed)) + needs.copies) for a, opened, closed in some]
    found = []
    for a, opened, closed in some:
        # weights of the block, of the next and of what is in none; gradients of what the backward has not left yet, and of
        # the block that it left last, in the buffer that they are exchanged from
        whole = narrow * (needs.rest + 2 * needs.largest) + opened * narrow / 4 + (4 * needs.largest if closed else 0)
        found.append((float(a), whole, (size if there else closed) / gpus))
    last = (narrow + 4.0) * needs.rest  # gradients of what is in no block, as they are copied into such a buffer
    return [*found, (0.0, last, size / gpus)]


def _share(room: float, activations: float) -> float:
    """How many times as much of a batch there is room for."""
    if activations:
        return room / activations
    return inf if room >= 0 else 0.0


def _exchange(needs: Needs, machines: Machines, kind: str, batches: int) -> tuple[float, float]:
    """Seconds and bytes sent of an update's collectives on a GPU."""
    gpus = machines.count
    if gpus == 1:
        return 0.0, 0.0
    inside = min(gpus, machines.per_host)
    hosts = ceil(gpus / machines.per_host)

    def ring(size: float) -> float:
        """Seconds to gather, or to scatter, that many bytes."""
        near = size * (inside - 1) / inside / (machines.host_gb_s * 1e9)
        return near + size / inside * (hosts - 1) / hosts / (machines.network_gb_s * 1e9)

    batches = 1 if kind == "ddp" else batches
    narrow = 2 if needs.half else 4
    times, volume = collectives(kind, 4.0 * needs.parameters, 4.0 * needs.rest, needs.blocks, narrow / 4)
    others = AGREED + (kind == "fsdp")  # one more for the length of the gradient, of which each has a piece
    latency = (batches * times + others) * machines.latency_us * 1e-6 * log2(gpus)
    return ring(batches * volume) + latency, batches * volume * (gpus - 1) / gpus


def collectives(kind: str, size: float, rest: float, blocks: int, narrow: float = 1.0) -> tuple[int, float]:
    """Of a batch after which weights of so many bytes, `rest` of them in none of the blocks, exchange gradients: how many
    there are, and the bytes that they gather and scatter. narrow: the size of a weight as FSDP2 gathers it, against fp32."""
    if kind == "ddp":
        return 1 + ceil(max(size - FIRST, 0.0) / BUCKET), 2 * size
    return 3 * blocks + 2 * (rest > 0), narrow * (2 * size - rest) + size


def forecasts(needs: Needs, machines: Machines) -> list[Forecast]:
    """DDP and FSDP2, each without and with activation checkpointing."""
    return [forecast(needs, machines, kind, again) for kind in ("ddp", "fsdp") for again in (False, True)]


def simulated(needs: Needs, machines: Machines, most: int = 1024) -> Iterator[tuple[Forecast, Forecast]]:
    """For 1, 2, 4 … GPUs of this kind: sharing the recipe's update, and each reading as much as one alone. Of DDP and FSDP2
    the faster that fits."""
    gpus = 1
    while gpus <= most:
        some = machines.model_copy(update={"count": gpus})
        yield _best(needs, some, False), _best(needs, some, True)
        gpus *= 2


def _best(needs: Needs, machines: Machines, weak: bool) -> Forecast:
    kinds = [forecast(needs, machines, kind, again, weak) for kind in ("ddp", "fsdp") for again in (False, True)]
    fitting = [one for one in kinds if one.fits]
    return min(fitting, key=lambda one: one.step) if fitting else min(kinds, key=lambda one: one.memory)


def optimal_tokens(parameters: int) -> tuple[float, float]:
    """Tokens of running text that a language model of so many weights is best trained on for its cost: 20 a weight
    (Hoffmann et al. 2022), and by the loss that Besiroglu et al. (2024) fitted to their runs."""
    a, b, alpha, beta = 482.01, 2085.43, 0.3478, 0.3658
    return 20.0 * parameters, (beta * b / (alpha * a) * parameters**alpha) ** (1 / beta)


def lines(needs: Needs, machines: Machines) -> list[str]:
    """The forecasts for a terminal."""
    told = [
        f"on {machines.count} GPUs{f' ({machines.name})' if machines.name else ''}, an update of {needs.update_tokens:,.0f}"
        " target tokens:"
    ]
    for one in forecasts(needs, machines):
        told.append(_line(one))
    told.append("more or fewer of them, the faster way that fits: sharing the recipe's update | each as much as one alone")
    for strong, weak in simulated(needs, machines):
        told.append(f"{strong.gpus:>6} GPUs  {_speed(strong)}  |  {_speed(weak)}")
    twenty, fitted = optimal_tokens(needs.parameters)
    told.append(
        f"data: {_short(twenty)} tokens for {_short(needs.parameters)} weights by 20 a weight, {_short(fitted)} by the"
        " later fit, if it were running text for a language model"
    )
    return [*told, *(f"assumed: {one}" for one in ASSUMPTIONS)]


def _line(one: Forecast) -> str:
    name = one.kind + (" + checkpointing" if one.checkpointing else "")
    parts = f"weights {_gb(one.weights)}, gradients {_gb(one.gradients)}, optimizer {_gb(one.optimizer)},"
    parts += f" activations {_gb(one.activations)}" + (f", whole for a moment {_gb(one.held)}" if one.held else "")
    fits = f"fits up to training.batch_tokens {one.batch_tokens:,}" if one.batch_tokens else "fits no batch"
    hides = "hides" if one.hidden else f"costs {one.exposed * 1e3:.1f} ms"
    cost = "" if one.cost is None else f", costs {one.cost:,.2f}"
    speed = f"{one.tokens_per_second:,.0f} tokens/s, {_time(one.days)}{cost}"
    return (
        f"  {name:<20} {_gb(one.memory)} each ({parts}); {fits}; {speed};"
        f" {one.step * 1e3:.1f} ms an update, {_gb(one.volume)} sent, which {hides}"
    )


def _speed(one: Forecast) -> str:
    name = one.kind + ("+c" if one.checkpointing else "")
    return f"{name:<6} {one.tokens_per_second:>14,.0f} tokens/s {_time(one.days):>9}" + (
        "" if one.fits else " (does not fit)"
    )


def _time(days: float) -> str:
    if days >= 2:
        return f"{days:.1f} days"
    return f"{24 * days:.1f} h" if days * 24 >= 1 else f"{days * 1440:.1f} min"


def _gb(size: float) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"


def _short(number: float) -> str:
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number:.0f}"


def document(needs: Needs, machines: Machines) -> dict[str, Any]:
    """The forecasts as one JSON-able object."""
    table = [{"shared": asdict(strong), "each": asdict(weak)} for strong, weak in simulated(needs, machines)]
    return {
        "machines": machines.model_dump(),
        "needs": asdict(needs),
        "forecasts": [asdict(one) for one in forecasts(needs, machines)],
        "simulated": table,
        "optimal_tokens": optimal_tokens(needs.parameters),
        "assumptions": list(ASSUMPTIONS),
    }
