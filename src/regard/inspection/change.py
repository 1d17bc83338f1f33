"""Changing what heads say, and putting it back: what a model does without a head shows what the head is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.inspection.tape import Tape, attentions, record

Hook = Callable[[nn.Module, Any, Tensor], Tensor]


@contextmanager
def gate_heads(model: nn.Module, gates: Mapping[str, Mapping[int, float]]) -> Iterator[None]:
    """Multiply what heads give by a factor within the block: {attention's name: {head: factor}}, 0 for silence.

    A factor of 1 changes nothing, bit for bit; 0 equals zeros in the head's columns of the output projection. At the end of
    the block, by an error too, the model is as before. ValueError: no attention of that name, no head of that number.
    """
    found = _checked(model, {name: list(factors) for name, factors in gates.items()})
    with _hooked((found[name], _gate(factors)) for name, factors in gates.items()):
        yield


@contextmanager
def patch_heads(model: nn.Module, patches: Mapping[str, Mapping[int, Tensor]]) -> Iterator[None]:
    """Have heads give these outputs within the block instead of their own: {attention's name: {head: Float[B Q d]}}, as
    another run's `outputs` has them, or with a 1 for B or Q what all rows or queries get (`mean_outputs`).

    ValueError: no such attention or head; in the pass, an output whose shape does not fit.
    """
    found = _checked(model, {name: list(outputs) for name, outputs in patches.items()})
    with _hooked((found[name], _patch(name, outputs)) for name, outputs in patches.items()):
        yield


@contextmanager
def change_heads(
    model: nn.Module, gates: Mapping[str, Mapping[int, float | None]], run: Callable[[], object]
) -> Iterator[None]:
    """`gate_heads`; a head whose factor is None gives its mean output over what `run` reads, whatever it is asked."""
    factors = {name: {head: factor for head, factor in its.items() if factor is not None} for name, its in gates.items()}
    means = {name: [head for head, factor in its.items() if factor is None] for name, its in gates.items()}
    means = {name: heads for name, heads in means.items() if heads}
    patches: dict[str, dict[int, Tensor]] = {}
    if means:
        _checked(model, means)
        with torch.no_grad(), record(model, list(means)) as tape:
            run()
        patches = {name: {head: mean_outputs(tape, name, head) for head in heads} for name, heads in means.items()}
    with gate_heads(model, factors), patch_heads(model, patches):
        yield


def outputs(tape: Tape, name: str, head: int) -> Tensor:
    """What a head gave in a recorded run: Float[B Q d], the queries of all calls in order."""
    return torch.cat([call.output[:, head] for call in tape.calls[name]], 1)


def mean_outputs(tape: Tape, name: str, head: int) -> Tensor:
    """The mean of what a head gave over all rows and queries: Float[1 1 d]."""
    return outputs(tape, name, head).mean((0, 1), keepdim=True)


def head_importance(model: nn.Module, loss: Callable[[], Tensor]) -> dict[str, list[float]]:
    """|d loss / d gate| of each head, by its attention's name, gates being factors of 1 on what heads give (Michel et al.
    2019, equation 2, for the texts of this one loss). One pass forward and backward. loss: makes the loss, by running the
    model."""
    found = attentions(model)
    gates: dict[str, Tensor] = {}

    def gate(name: str) -> Hook:
        def hook(_: nn.Module, __: Any, output: Tensor) -> Tensor:
            if name not in gates:
                gates[name] = torch.ones(output.shape[1], dtype=output.dtype, device=output.device, requires_grad=True)
            return output * gates[name][:, None, None]

        return hook

    with torch.enable_grad(), _hooked((module, gate(name)) for name, module in found.items()):
        value = loss()
        grads = torch.autograd.grad(value, list(gates.values()), allow_unused=True) if gates else ()
    return {name: [0.0] * len(gates[name]) if g is None else g.abs().tolist() for name, g in zip(gates, grads)}


def _checked(model: nn.Module, wanted: Mapping[str, list[int]]) -> dict[str, nn.Module]:
    """All attentions of a model. ValueError: one that is wanted is not among them, or has no such head."""
    found = attentions(model)
    for name, heads in wanted.items():
        if name not in found:
            raise ValueError(f"no attention is called {name!r}; there are {', '.join(found) or 'none'}")
        count = heads_of(model, name)
        wrong = [head for head in heads if not 0 <= head < count]
        if wrong:
            raise ValueError(f"{name} has heads 0 to {count - 1}, not {wrong[0]}")
    return found


def heads_of(model: nn.Module, name: str) -> int:
    """How many heads an attention has: as many as the part it stands in, or the part around that, says; else one."""
    path = name.split(".")[:-1]
    for length in (len(path), len(path) - 1):
        count = getattr(model.get_submodule(".".join(path[:length])), "num_heads", None)
        if count is not None:
            return int(count)
    return 1


@contextmanager
def _hooked(pairs: Iterable[tuple[nn.Module, Hook]]) -> Iterator[None]:
    handles = [module.register_forward_hook(hook) for module, hook in pairs]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _gate(factors: Mapping[int, float]) -> Hook:
    def hook(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        gate = output.new_tensor([factors.get(head, 1.0) for head in range(output.shape[1])])
        return output * gate[:, None, None]

    return hook


def _patch(name: str, others: Mapping[int, Tensor]) -> Hook:
    def hook(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        output = output.clone()
        for head, other in others.items():
            here = output[:, head]
            if other.dim() != 3 or any(n not in (1, m) for n, m in zip(other.shape[:2], here.shape)):
                raise ValueError(f"head {head} of {name} gives {list(here.shape)}, its patch is {list(other.shape)}")
            output[:, head] = other.to(here.dtype)
        return output

    return hook
