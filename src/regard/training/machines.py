"""What a recipe costs on other machines: memory, time and communication under DDP and FSDP2, for any number of GPUs.

A model of it, in closed form; what it assumes stands in ASSUMPTIONS and is printed with every answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil, log2
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from regard.training.sections import Section, Whole
from regard.training.wording import keys_of, refuse
from regard.training.yaml_source import read_yaml

if TYPE_CHECKING:
    from regard.training.plan import Plan
    from regard.training.recipe import Recipe

ASSUMPTIONS = (
    "a GPU reaches `utilisation` of its peak at any size of batch, and padding is as in the recipe's own batches",
    "weights, gradients and the optimiser's memory are fp32; activations grow with the tokens of a batch (measured on the"
    " recipe's longest batch), and are half as large in bf16",
    "a collective runs as rings, within hosts first, then between them; DDP hides it behind the last backward pass, FSDP2"
    " behind all of the work, as far as `overlap` says; each costs `latency_us` for every doubling of the GPUs",
    "FSDP2 holds two blocks and what is in no block whole at a time, and exchanges gradients after every batch",
    "activation checkpointing repeats the forward pass, with one block's activations whole at a time; gradients grow as"
    " activations go, unless they are there before (DDP's buckets, a batch before); evaluations, checkpoints and reading are"
    " not counted",
)
BUCKET = 25 * 2**20
"""Bytes that DDP exchanges at a time."""


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
    optimizer: bytes a parameter, the moving average included. activations, checkpointed: bytes that a batch of
    `batch_tokens` keeps for its backward pass. flops: of a forward pass, a target token. update_tokens: target tokens of an
    update, accumulate: its batches. updates: until the recipe ends. half: bf16."""

    parameters: int
    blocks: int
    largest: int
    rest: int
    optimizer: float
    activations: int
    checkpointed: int
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
        activations=held.activations,
        checkpointed=plan.checkpointed,
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
    narrow = 2 if needs.half else 4
    held = 0.0
    if kind == "fsdp" and gpus > 1:
        held = narrow * (needs.rest + 2 * needs.largest) + 4 * max(needs.largest, needs.rest)
    weights, gradients, optimizer = 4 * count / cut, 4 * count / cut, needs.optimizer * count / cut
    each = _kept(needs, checkpointing) * narrow / 4 / needs.batch_tokens
    kept = each * needs.batch_tokens * min(batches, 1.0)
    there = kind == "ddp" or batches > 1 or checkpointing  # gradients, while all activations are
    fixed = weights + optimizer + held + (gradients if there else 0.0)
    memory = fixed + (kept if there else max(kept, gradients))
    room = (machines.memory_gb - machines.overhead_gb) * 1e9
    tokens = needs.update_tokens * (gpus if weak else 1)
    passes = 4 if checkpointing else 3
    compute = passes * needs.flops * tokens / gpus / (machines.peak_tflops * 1e12 * machines.utilisation)
    exchange, volume = _exchange(needs, machines, kind, ceil(batches), narrow)
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
        fits=memory <= room,
        batch_tokens=max(int((room - fixed) / each), 0) if room > fixed + (0.0 if there else gradients) else 0,
        compute=compute,
        exchange=exchange,
        exposed=exposed,
        step=step,
        volume=volume,
        tokens_per_second=tokens / step,
        days=days,
        cost=None if machines.price_hour is None else days * 24 * gpus * machines.price_hour,
    )


def _kept(needs: Needs, checkpointing: bool) -> float:
    """Bytes of a batch's activations at a time."""
    if not checkpointing:
        return needs.activations
    return needs.checkpointed + (needs.activations - needs.checkpointed) / max(needs.blocks, 1)


def _exchange(needs: Needs, machines: Machines, kind: str, batches: int, narrow: int) -> tuple[float, float]:
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

    size = 4.0 * needs.parameters
    if kind == "ddp":
        seconds, sent, times = 2 * ring(size), 2 * size * (gpus - 1) / gpus, ceil(size / BUCKET)
    else:
        gathered = 2 * narrow * needs.parameters
        seconds = batches * (2 * ring(narrow * needs.parameters) + ring(size))
        sent = batches * (gathered + size) * (gpus - 1) / gpus
        times = batches * 3 * max(round((needs.parameters - needs.rest) / max(needs.largest, 1)) + 1, 1)
    return seconds + times * machines.latency_us * 1e-6 * log2(gpus), sent


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
