"""Banks take turns for the places of a beam (Hu et al. 2019), for all sentences of a batch at once."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

NEVER = 1 << 30
"""More than candidates need tokens, and than there are of them."""


def shared(place: Tensor, score: Tensor, need: Tensor, ends: Tensor, width: int, last: Tensor) -> Tensor:
    """The candidates that a beam goes on from, by their places: Int[S 2·width], -1 where there are no more.

    For each sentence first those that end, among the best `width` that need nothing; then `width` that go on, best first.
    An end mark that comes too early is taken only where nothing else is left. Of a place that stands there twice the first
    counts. place, score, need: Int|Float|Int[S C], of each candidate, its log-probability (minus infinity: it is none), and
    the tokens that its phrases lack. ends: Bool[S C]. last: Bool[S], sentences that cannot go on: of these the `width` that
    need least."""
    place, score, need, ends = _ranked(place, score, need, ends)
    there, at = score > -math.inf, torch.arange(place.shape[1], device=place.device)
    need = need.masked_fill(~there, NEVER)
    complete = need == 0
    finished = complete & ends & (complete.cumsum(1) <= width)
    turns = _turns(need.masked_fill(ends, NEVER), width)
    nothing = ~(finished | turns).any(1, keepdim=True)
    finished |= nothing & there & ends & (at < width)
    least = there & (need == need.amin(1, keepdim=True))
    finished = torch.where(last[:, None], least & (least.cumsum(1) <= width), finished)
    turns &= ~last[:, None]
    rank, order = torch.where(finished, at, torch.where(turns, at + len(at), NEVER)).sort(1)
    chosen = place.gather(1, order).masked_fill(rank == NEVER, -1)[:, : 2 * width]
    return functional.pad(chosen, (0, max(0, 2 * width - chosen.shape[1])), value=-1)


def _ranked(place: Tensor, score: Tensor, need: Tensor, ends: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Best first, among equals the lower place; of a place that stands there twice only the first has a score."""
    lost = torch.iinfo(place.dtype).max
    place, order = place.masked_fill(score == -math.inf, lost).sort(dim=1, stable=True)
    score, again = score.gather(1, order).masked_fill(_as_before(place), -math.inf).sort(dim=1, descending=True, stable=True)
    order = order.gather(1, again)
    return place.gather(1, again), score, need.gather(1, order), ends.gather(1, order)


def _turns(need: Tensor, width: int) -> Tensor:
    """Which `width` of candidates, best first, are taken when their banks take turns: Bool[S C].

    A bank is all that need as much. Of each turn the first is the best candidate, whichever its bank, then come the banks
    that need least. need: Int[S C], NEVER for what cannot be taken."""
    count = need.shape[1]
    at = torch.arange(count, device=need.device).expand_as(need)
    bank, order = need.sort(dim=1, stable=True)
    begins = at.masked_fill(_as_before(bank), 0).cummax(1).values
    turn = torch.empty_like(at).scatter(1, order, at - begins).masked_fill(need == NEVER, count)
    first = need.new_full((len(need), count + 1), NEVER).scatter_reduce(1, turn, at, "amin").gather(1, turn)
    price = turn * (NEVER + 2) + (need + 1).masked_fill(at == first, 0)
    taken = price.topk(min(width, count), 1, largest=False).indices
    return torch.zeros_like(need, dtype=torch.bool).scatter(1, taken, True) & (need < NEVER)


def _as_before(x: Tensor) -> Tensor:
    """Where x[S C] is what it was one place before: Bool[S C]."""
    return functional.pad(x[:, 1:] == x[:, :-1], (1, 0), value=False)
