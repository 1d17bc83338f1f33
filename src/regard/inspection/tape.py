"""The recorder: it keeps the queries and keys of every `attend` of a model and makes weights of those that are asked for.

Nothing in the model knows of it. What is kept is what the fast body was given, so the model's answers are the same bit for
bit; the weights come from `attend.explain`, the definition, in fp32 (or fp64 where the model has that).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from regard.layout import Layout


@dataclass(frozen=True, eq=False)
class Call:
    """What one call of an `attend` was given: q [B H Q d], k [B G K d], the lowered mask, the bias or None."""

    q: Tensor
    k: Tensor
    mask: Any
    bias: Tensor | None = None


class Tape:
    """What was recorded: for each attention, by name, its calls in order."""

    def __init__(self, attends: dict[str, nn.Module]) -> None:
        self.attends = attends
        self.calls: dict[str, list[Call]] = {name: [] for name in attends}

    @property
    def names(self) -> list[str]:
        """Attentions that were called, in the model's order."""
        return [name for name, calls in self.calls.items() if calls]

    def keep(self, name: str, q: Tensor, k: Tensor, mask: Any, bias: Tensor | None = None) -> None:
        """Note one call."""
        self.calls[name].append(Call(q.detach(), k.detach(), mask, None if bias is None else bias.detach()))

    @torch.no_grad()
    def weights(self, name: str, head: int | None = None, rows: Sequence[int] | None = None) -> Tensor:
        """Weights of one attention: Float[B H Q K], with `head` Float[B Q K]; `rows`: those rows of the batch, so ordered.

        Where it was called more than once (token by token) the calls' queries follow one another, and keys that a call did
        not have weigh 0. KeyError: no such attention was called. ValueError: no such head, or calls of unequal batches.
        """
        if not self.calls.get(name):
            raise KeyError(f"no attention {name!r} was recorded; recorded: {', '.join(self.names)}")
        calls = self.calls[name]
        if len({call.q.shape[0] for call in calls}) > 1:
            raise ValueError(f"{name} was called for batches of different sizes: record one pass at a time")
        if head is not None and not 0 <= head < calls[0].q.shape[1]:
            raise ValueError(f"{name} has heads 0 to {calls[0].q.shape[1] - 1}, not {head}")
        made = [_explain(self.attends[name], call) for call in calls]
        most = max(weights.shape[3] for weights in made)
        whole = torch.cat([nn.functional.pad(weights, (0, most - weights.shape[3])) for weights in made], 2)
        if rows is not None:
            whole = whole[list(rows)]
        return whole if head is None else whole[:, head]


def _explain(attend: Any, call: Call) -> Tensor:
    """The definition on at least fp32, whatever the model's own width."""
    wide = torch.promote_types(call.q.dtype, torch.float32)

    def widened(x: Any) -> Any:
        return x.to(wide) if x is not None and x.is_floating_point() else x

    with torch.autocast(call.q.device.type, enabled=False):
        if not any(p.dtype != wide for p in attend.parameters()):
            return attend.explain(widened(call.q), widened(call.k), call.mask, widened(call.bias))
        shown = _Explained(attend)
        weights = {name: widened(p.detach()) for name, p in shown.named_parameters()}
        given = (widened(call.q), widened(call.k), call.mask, widened(call.bias))
        return torch.func.functional_call(shown, weights, given)


class _Explained(nn.Module):
    """An attend whose forward is its explanation, so that it can be called with other weights."""

    def __init__(self, attend: Any) -> None:
        super().__init__()
        self.attend: Any = attend

    def forward(self, *given: Any) -> Tensor:
        return self.attend.explain(*given)


def attentions(model: nn.Module, only: Sequence[str] | None = None) -> dict[str, nn.Module]:
    """Every `attend` of a model by its full name; `only`: those that fit one of these patterns (* stands for anything).
    ValueError: a pattern fits none."""
    found = {name: module for name, module in model.named_modules() if name.split(".")[-1] == "attend"}
    if only is None:
        return found
    for pattern in only:
        if not any(fnmatchcase(name, pattern) for name in found):
            raise ValueError(f"no attention is called {pattern!r}; there are {', '.join(found) or 'none'}")
    return {name: module for name, module in found.items() if any(fnmatchcase(name, pattern) for pattern in only)}


@contextmanager
def record(model: nn.Module, only: Sequence[str] | None = None) -> Iterator[Tape]:
    """Record what the attentions of a model (`only`: those whose names fit a pattern) are asked within the block.

    RuntimeError at its end if none was called: a compiled or replaced model would leave the tape empty in silence.
    """
    tape = Tape(attentions(model, only))
    hooks = [module.register_forward_pre_hook(_hook(tape, name), with_kwargs=True) for name, module in tape.attends.items()]
    try:
        yield tape
    finally:
        for hook in hooks:
            hook.remove()
    if not tape.names:
        raise RuntimeError("nothing was recorded: no attention of this model was called")


def _hook(tape: Tape, name: str) -> Any:
    order = ("q", "k", "v", "mask", "bias")

    def hook(_: nn.Module, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        given = dict(zip(order, positional)) | named
        tape.keep(name, given["q"], given["k"], given["mask"], given.get("bias"))

    return hook


def is_cross(name: str) -> bool:
    """Whether an attention of this name looks from the output at the input: a block's `cross`, or a recurrent decoder's."""
    return name == "decoder.attend" or name.endswith(".cross.attend")


@torch.no_grad()
def align(model: Any, inputs: Sequence[int], outputs: Sequence[int], layer: int = -1) -> Tensor:
    """How one sentence's outputs looked at its inputs: Float[T S], the mean of the heads of one layer's cross-attention.

    inputs: S source ids as the model reads them (with eos). outputs: T ids as the decoder reads them (with bos); row t is
    where the model looked when it answered what follows outputs[t]. One forced pass, whatever search found the outputs.
    layer: which cross-attention, the last by default. ValueError: the model has none.
    """
    names = [name for name in attentions(model) if is_cross(name)]
    if not names:
        raise ValueError("this model has no attention from outputs to inputs")
    name, training = names[layer], model.training
    source, target = (torch.tensor([list(ids)], device=model.device) for ids in (inputs, outputs))
    model.eval()
    try:
        with record(model, [name]) as tape:
            layouts = (Layout.unpadded(ids.shape[1], device=model.device) for ids in (source, target))
            model(source, target, **dict(zip(("layout", "output_layout"), layouts)))
    finally:
        model.train(training)
    return tape.weights(name)[0].mean(0)
