"""The recorder: it keeps what every `attend` of a model was given and gave, and makes weights of those that are asked for.

Nothing in the model knows of it. What is kept is what the fast body was given, so the model's answers are the same bit for
bit; the weights come from `attend.explain`, the definition, in fp32 (or fp64 where the model has that).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.masks import Lowered
from regard.layout import Layout

ALIVE = 1 << 22
"""Scores alive at once while weights are checked."""


@dataclass(frozen=True, eq=False)
class Call:
    """One call of an `attend`: q [B H Q d], k [B G K d], v [B G K e], the lowered mask, the bias or None, and what the fast
    body answered, [B H Q e]."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Any
    bias: Tensor | None
    output: Tensor

    def allowed(self) -> Tensor | None:
        """Bool[B|1 1 Q K]: the keys that each query may see; None for all."""
        return self.mask.dense(self.q.shape[2], self.k.shape[2], self.q.device)

    def cut(self, heads: Sequence[int] | None, rows: Sequence[int] | None, queries: Sequence[int] | None) -> Call:
        """The same call of these heads, rows of the batch and queries alone; None: of all."""
        call = self if heads is None else self._heads(list(heads))
        call = call if rows is None else call._rows(list(rows))
        return call if queries is None else call._queries(list(queries))

    def _heads(self, heads: list[int]) -> Call:
        each = self.q.shape[1] // self.k.shape[1]
        shared = [head // each for head in heads]
        bias = self.bias if self.bias is None or self.bias.shape[1] == 1 else self.bias[:, heads]
        return replace(
            self,
            q=self.q[:, heads],
            k=self.k[:, shared],
            v=self.v[:, shared],
            bias=bias,
            output=self.output[:, heads],
        )

    def _rows(self, rows: list[int]) -> Call:
        def chosen(x: Tensor | None) -> Tensor | None:
            return x if x is None or x.shape[0] == 1 < self.q.shape[0] else x[rows]

        q, k, v, output = (x[rows] for x in (self.q, self.k, self.v, self.output))
        mask = Lowered(chosen(self.allowed()), absent=chosen(self.mask.absent))
        return replace(self, q=q, k=k, v=v, mask=mask, bias=chosen(self.bias), output=output)

    def _queries(self, queries: list[int]) -> Call:
        allowed = self.allowed()
        if allowed is not None and allowed.shape[2] > 1:
            allowed = allowed[:, :, queries]
        bias = self.bias if self.bias is None or self.bias.shape[2] == 1 else self.bias[:, :, queries]
        mask = Lowered(allowed, absent=self.mask.absent)
        return replace(self, q=self.q[:, :, queries], mask=mask, bias=bias, output=self.output[:, :, queries])


@dataclass(frozen=True)
class Check:
    """row_sum: most that a query's weights are away from 1 in all (a query that may see nothing has none). output: most that
    weights × values are away from what the fast body gave. kernel: that body, "sdpa", "blocks" or "definition"."""

    row_sum: float
    output: float
    kernel: str


class Tape:
    """What was recorded: for each attention, by name, its calls in order."""

    def __init__(self, attends: dict[str, nn.Module]) -> None:
        self.attends = attends
        self.calls: dict[str, list[Call]] = {name: [] for name in attends}

    @property
    def names(self) -> list[str]:
        """Attentions that were called, in the model's order."""
        return [name for name, calls in self.calls.items() if calls]

    @property
    def bytes(self) -> int:
        """Memory that the tape keeps alive, in bytes; what several calls share counts once."""
        seen = {}
        for call in (call for calls in self.calls.values() for call in calls):
            for tensor in (call.q, call.k, call.v, call.bias, call.output):
                if tensor is not None:
                    store = tensor.untyped_storage()
                    seen[store.data_ptr()] = store.nbytes()
        return sum(seen.values())

    def keep(self, name: str, given: dict[str, Any], output: Tensor) -> None:
        """Note one call: what `attend` was given, by name, and its answer."""
        bias = given.get("bias")
        q, k, v = (given[key].detach() for key in ("q", "k", "v"))
        self.calls[name].append(Call(q, k, v, given["mask"], None if bias is None else bias.detach(), output.detach()))

    def heads(self, name: str) -> int:
        """How many heads an attention has."""
        return self._calls(name)[0].q.shape[1]

    def answered(self, name: str, tokens: int) -> list[int] | None:
        """Numbers of the queries, over all calls, that answered for the tokens of a pass; None for all of them. Where tokens
        came one after another, each call's last query did; the others were asked before."""
        calls = self._calls(name)
        ends = [sum(call.q.shape[2] for call in calls[: n + 1]) for n in range(len(calls))]
        return None if ends[-1] == tokens else [end - 1 for end in ends]

    @torch.no_grad()
    def weights(
        self,
        name: str,
        head: int | Sequence[int] | None = None,
        rows: Sequence[int] | None = None,
        queries: Sequence[int] | None = None,
    ) -> Tensor:
        """Weights of one attention: Float[B H Q K], with one `head` Float[B Q K], with several those, so ordered. rows:
        those rows of the batch; queries: those queries. No others are made.

        Where it was called more than once (token by token) the calls' queries follow one another, and keys that a call did
        not have weigh 0. KeyError: no such attention was called. ValueError: no such head, or calls of unequal batches.
        """
        heads = [head] if isinstance(head, int) else head
        made = [_explain(self.attends[name], call) for call in self._cut(name, heads, rows, queries)]
        most = max(weights.shape[3] for weights in made)
        whole = torch.cat([nn.functional.pad(weights, (0, most - weights.shape[3])) for weights in made], 2)
        return whole[:, 0] if isinstance(head, int) else whole

    @torch.no_grad()
    def masked(self, name: str, queries: Sequence[int] | None = None) -> Tensor | None:
        """Bool[B|1 Q K]: keys that a query may not see; None if all may see all."""
        calls = list(self._cut(name, None, None, queries))
        most = max(call.k.shape[2] for call in calls)
        found = []
        for call in calls:
            shape, allowed = (1, call.q.shape[2], call.k.shape[2]), call.allowed()
            barred = torch.zeros(shape, dtype=torch.bool) if allowed is None else ~allowed[:, 0].cpu()
            absent = call.mask.absent
            if absent is not None:
                barred = barred | absent[:, None].cpu()
            barred = barred.expand(-1, shape[1], -1)
            found.append(nn.functional.pad(barred, (0, most - shape[2]), value=True))
        rows = max(one.shape[0] for one in found)
        whole = torch.cat([one.expand(rows, -1, -1) for one in found], 1)
        return whole if bool(whole.any()) else None

    @torch.no_grad()
    def check(self, name: str) -> Check:
        """How exact the weights of an attention are, all its heads and queries taken, a few at a time."""
        attend: Any = self.attends[name]
        row_sum = output = 0.0
        for call in self._calls(name):
            step = max(1, ALIVE // max(1, call.q.shape[0] * call.q.shape[1] * call.k.shape[2]))
            for at in range(0, call.q.shape[2], step):
                part = call.cut(None, None, range(at, min(at + step, call.q.shape[2])))
                sums, away = _exactness(attend, part)
                row_sum, output = max(row_sum, sums), max(output, away)
        first = self._calls(name)[0]
        fused = "blocks" if first.mask.blocked is not None and first.bias is None else "sdpa"
        return Check(row_sum, output, "definition" if hasattr(attend, "scores") else fused)

    def _calls(self, name: str) -> list[Call]:
        if not self.calls.get(name):
            raise KeyError(f"no attention {name!r} was recorded; recorded: {', '.join(self.names)}")
        return self.calls[name]

    def _cut(
        self, name: str, heads: Sequence[int] | None, rows: Sequence[int] | None, queries: Sequence[int] | None
    ) -> Iterator[Call]:
        calls = self._calls(name)
        if len({call.q.shape[0] for call in calls}) > 1:
            raise ValueError(f"{name} was called for batches of different sizes: record one pass at a time")
        count = calls[0].q.shape[1]
        wrong = [head for head in heads or () if not 0 <= head < count]
        if wrong:
            raise ValueError(f"{name} has heads 0 to {count - 1}, not {wrong[0]}")
        start = 0
        for call in calls:
            length = call.q.shape[2]
            inside = None if queries is None else [n - start for n in queries if start <= n < start + length]
            start += length
            if inside is None or inside:
                yield call.cut(heads, rows, inside)


def _exactness(attend: Any, call: Call) -> tuple[float, float]:
    weights = _explain(attend, call)
    sums, allowed = weights.sum(-1), call.allowed()
    if allowed is not None:
        sums = sums.masked_fill(~allowed.any(-1).expand_as(sums), 1.0)
    values = call.v if call.mask.absent is None else call.v.masked_fill(call.mask.absent[:, None, :, None], 0.0)
    values = values.to(weights.dtype).repeat_interleave(call.q.shape[1] // call.v.shape[1], 1)
    away = (weights @ values - call.output.to(weights.dtype)).abs()
    return float((sums - 1).abs().amax()) if sums.numel() else 0.0, float(away.amax()) if away.numel() else 0.0


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
    hooks = [
        module.register_forward_hook(_hook(tape, name), with_kwargs=True, prepend=True)
        for name, module in tape.attends.items()
    ]
    try:
        yield tape
    finally:
        for hook in hooks:
            hook.remove()
    if not tape.names:
        raise RuntimeError("nothing was recorded: no attention of this model was called")


def _hook(tape: Tape, name: str) -> Any:
    order = ("q", "k", "v", "mask", "bias")

    def hook(_: nn.Module, positional: tuple[Any, ...], named: dict[str, Any], output: Tensor) -> None:
        tape.keep(name, dict(zip(order, positional)) | named, output)

    return hook


def is_cross(name: str) -> bool:
    """Whether an attention of this name looks from the output at the input: a block's `cross`, or a recurrent decoder's."""
    return name == "decoder.attend" or name.endswith(".cross.attend")


@torch.no_grad()
def align(
    model: Any, inputs: Sequence[int], outputs: Sequence[int], layer: int = -1, chosen: tuple[str, int | None] | None = None
) -> Tensor:
    """How one sentence's outputs looked at its inputs: Float[T S], the mean of the heads of one layer's cross-attention.

    inputs: S source ids as the model reads them (with eos). outputs: T ids as the decoder reads them (with bos); row t is
    where the model looked when it answered what follows outputs[t]. One forced pass, whatever search found the outputs.
    layer: which cross-attention, the last by default; chosen: it by its name and one of its heads, None for their mean.
    ValueError: the model has none.
    """
    names = [name for name in attentions(model) if is_cross(name)]
    if not names:
        raise ValueError("this model has no attention from outputs to inputs")
    name, head = chosen or (names[layer], None)
    training = model.training
    source, target = (torch.tensor([list(ids)], device=model.device) for ids in (inputs, outputs))
    model.eval()
    try:
        with record(model, [name]) as tape:
            layouts = (Layout.unpadded(ids.shape[1], device=model.device) for ids in (source, target))
            model(source, target, **dict(zip(("layout", "output_layout"), layouts)))
    finally:
        model.train(training)
    return tape.weights(name)[0].mean(0) if head is None else tape.weights(name, head)[0]
