"""One query by hand: every number between a query and what its head answers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.inspection.tape import Tape


@dataclass(frozen=True, eq=False)
class Numbers:
    """One head's: q Float[Q d], k [K d], v [K e], bias [Q K] or None, scale, masked Bool[Q K] or None, out [Q e] as the fast
    body gave it."""

    q: Tensor
    k: Tensor
    v: Tensor
    bias: Tensor | None
    scale: float
    masked: Tensor | None
    out: Tensor


@dataclass(frozen=True)
class Steps:
    """One query's, a number for each key: products q·k, scaled, with the bias and the mask (None: not allowed), weights;
    and what the weighted values sum to."""

    products: list[float]
    scaled: list[float]
    scores: list[float | None]
    weights: list[float]
    output: list[float]


def numbers(tape: Tape, name: str, head: int, tokens: int) -> Numbers | None:
    """The numbers of a head for the tokens of a pass over one text; None where the score is no product of q and k, or tokens
    came one after another with keys of their own."""
    scale = getattr(tape.attends[name], "scale", None)
    calls = tape.calls[name]
    if scale is None or len(calls) != 1:
        return None
    call = calls[0].cut([head], None, tape.answered(name, tokens))
    masked = tape.masked(name, tape.answered(name, tokens))
    bias = None if call.bias is None else call.bias[0, 0].expand(call.q.shape[2], call.k.shape[2])
    q, k, v, out = (x[0, 0].float() for x in (call.q, call.k, call.v, call.output))
    return Numbers(q, k, v, bias, float(scale), None if masked is None else masked[0], out)


def by_hand(its: Numbers, query: int) -> Steps:
    """The steps of one query, in double precision. ValueError: there is no such query."""
    if not 0 <= query < its.q.shape[0]:
        raise ValueError(f"there are queries 0 to {its.q.shape[0] - 1}, not {query}")
    products = its.k.double() @ its.q[query].double()
    scaled = products * its.scale
    scores = scaled if its.bias is None else scaled + its.bias[query].double()
    barred = torch.zeros_like(scores, dtype=torch.bool) if its.masked is None else its.masked[query].to(scores.device)
    weights = torch.zeros_like(scores)
    if not bool(barred.all()):
        weights = scores.masked_fill(barred, float("-inf")).softmax(0)
    output = weights @ its.v.double()
    shown = [None if bar else value for value, bar in zip(scores.tolist(), barred.tolist())]
    return Steps(products.tolist(), scaled.tolist(), shown, weights.tolist(), output.tolist())
