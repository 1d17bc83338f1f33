"""The best of each row, and among equals the first."""

from __future__ import annotations

import math

import torch
from torch import Tensor

BLOCK = 32
WIDE, MANY = 2048, 1 << 18
"""Rows of so many numbers are looked through in blocks, if there are so many in all: a few rows are faster without."""


def best_of(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row of Float[R N], largest first, and their places; among equals the first place.

    torch.topk leaves the order of equals open: rows where it may have taken the wrong one are sorted."""
    if count >= x.shape[1]:
        value, place = x.sort(dim=1, descending=True, stable=True)
        return value, place
    value, place = largest(x, count + 1)
    equal = (value[:, 1:] == value[:, :-1]) & (value[:, 1:] > -math.inf)
    if not bool(equal.any()):
        return value[:, :count], place[:, :count]
    tied = equal[:, -1]
    place, order = place[:, :count].sort(1)
    value, second = value[:, :count].gather(1, order).sort(dim=1, descending=True, stable=True)
    place = place.gather(1, second)
    if bool(tied.any()):
        sorted_value, sorted_place = x[tied].sort(dim=1, descending=True, stable=True)
        value[tied], place[tied] = sorted_value[:, :count], sorted_place[:, :count]
    return value, place


def first_of(x: Tensor) -> Tensor:
    """`torch.argmax` of each row of Float[R N], the first among equals; for wide rows on a CPU by the maxima of blocks."""
    if not _wide(x):
        return x.argmax(1)
    body, rest = _blocks(x)
    block = body.amax(2).argmax(1)
    near = _taken(body, block[:, None])
    spot = torch.cat([near, rest], 1).argmax(1)
    return torch.where(spot < BLOCK, block * BLOCK + spot, spot + (body.shape[1] - 1) * BLOCK)


def largest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`torch.topk`, for wide rows on a CPU in two steps: the best `count` numbers stand in the `count` blocks with the
    largest maxima (and what is left over at the end), so no more than these are looked through one by one."""
    if not _wide(x) or 4 * count * BLOCK > x.shape[1]:
        return x.topk(count, 1)
    body, rest = _blocks(x)
    chosen = body.amax(2).topk(count, 1, sorted=False).indices
    value, spot = torch.cat([_taken(body, chosen), rest], 1).topk(count, 1)
    inside = spot.clamp(max=count * BLOCK - 1)
    place = chosen.gather(1, inside // BLOCK) * BLOCK + inside % BLOCK
    return value, torch.where(spot < count * BLOCK, place, spot + (body.shape[1] - count) * BLOCK)


def extensions(
    logits: Tensor, total: Tensor, count: int, norm: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor] | None:
    """The `count` best continuations of each sentence's beams, for wide logits Float[A·w V] on a CPU: their log-probability
    with all that was written before, their places beam·V + token, and their own log-probability, Float|Int[A count]. total:
    Float[A w], of what was written before. norm: as in `log_probs`.

    Looks at the blocks that can hold one of a sentence's best; otherwise the best of each beam would have to be found first.
    None where the slow way is to be taken: few numbers, or equals among the best, of which the first counts."""
    rows, width = total.numel(), total.shape[1]
    if not _wide(logits) or 4 * (count + 1) * BLOCK > width * logits.shape[1]:
        return None
    logs = logits.log_softmax(1) if norm is None else logits
    body, rest = _blocks(logs)
    blocks, before = body.amax(2), (total.reshape(rows) if norm is None else total.reshape(rows) - norm)[:, None]
    chosen = (blocks + before).view(len(total), -1).topk(count + 1, 1, sorted=False).indices
    beam, block = chosen // blocks.shape[1], chosen % blocks.shape[1]
    row = beam + torch.arange(len(total))[:, None] * width
    near = body[row, block] + before[row]
    value, spot = torch.cat([near.flatten(1), (rest + before).view(len(total), -1)], 1).topk(count + 1, 1)
    if bool(((value[:, 1:] == value[:, :-1]) & (value[:, 1:] > -math.inf)).any()):
        return None
    value, spot = value[:, :count], spot[:, :count]
    inside = spot.clamp(max=near[0].numel() - 1)
    place = beam.gather(1, inside // BLOCK) * logits.shape[1] + block.gather(1, inside // BLOCK) * BLOCK + inside % BLOCK
    if rest.shape[1]:
        over = (spot - near[0].numel()).clamp(min=0)
        last = over // rest.shape[1] * logits.shape[1] + body.shape[1] * BLOCK + over % rest.shape[1]
        place = torch.where(spot < near[0].numel(), place, last)
    log = logs.view(len(total), -1).gather(1, place)
    return value, place, log if norm is None else log - norm.view(total.shape).gather(1, place // logits.shape[1])


def log_probs(logits: Tensor, norm: Tensor | None, tokens: Tensor) -> Tensor:
    """Log-probabilities of tokens Int[R C]. norm: Float[R], log of the sum of exp(logits) before some were forbidden; None
    where none were (log_softmax is then the fastest way)."""
    if norm is None:
        return logits.log_softmax(1).gather(1, tokens)
    return logits.gather(1, tokens) - norm[:, None]


def _wide(x: Tensor) -> bool:
    return x.shape[1] >= WIDE and x.numel() >= MANY and x.device.type == "cpu"


def _blocks(x: Tensor) -> tuple[Tensor, Tensor]:
    """Float[R N] as blocks Float[R N/BLOCK BLOCK], and the numbers left over."""
    count = x.shape[1] // BLOCK
    return x[:, : count * BLOCK].unflatten(1, (count, BLOCK)), x[:, count * BLOCK :]


def _taken(body: Tensor, chosen: Tensor) -> Tensor:
    """The blocks Int[R C] of each row, side by side: Float[R C·BLOCK]."""
    rows = torch.arange(len(body))[:, None]
    if not body.is_contiguous():
        return body[rows, chosen].flatten(1)
    return body.flatten(0, 1).index_select(0, (rows * body.shape[1] + chosen).flatten()).view(len(body), -1)
