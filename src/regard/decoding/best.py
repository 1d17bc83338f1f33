"""The best of each row, and among equals the first."""

from __future__ import annotations

import math

import torch
from torch import Tensor

BLOCK = 64
WIDE = 2048
"""Rows of so many numbers are looked through in blocks."""


def best_of(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row of Float[R N], largest first, and their places; among equals the first place.

    torch.topk leaves the order of equals open: rows where it may have taken the wrong one are sorted."""
    if count >= x.shape[1]:
        value, place = x.sort(dim=1, descending=True, stable=True)
        return value, place
    value, place = largest(x, count + 1)
    tied = (value[:, count - 1] == value[:, count]) & (value[:, count] > -math.inf)
    place, order = place[:, :count].sort(1)
    value, second = value[:, :count].gather(1, order).sort(dim=1, descending=True, stable=True)
    place = place.gather(1, second)
    if bool(tied.any()):
        sorted_value, sorted_place = x[tied].sort(dim=1, descending=True, stable=True)
        value[tied], place[tied] = sorted_value[:, :count], sorted_place[:, :count]
    return value, place


def largest(x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`torch.topk`, for wide rows on a CPU in two steps: the best `count` numbers stand in the `count` blocks with the
    largest maxima (and what is left over at the end), so no more than these are looked through one by one."""
    blocks = x.shape[1] // BLOCK
    if x.shape[1] < WIDE or 4 * count > blocks or x.device.type != "cpu":
        return x.topk(count, 1)
    body, rest = x[:, : blocks * BLOCK].unflatten(1, (blocks, BLOCK)), x[:, blocks * BLOCK :]
    chosen = body.amax(2).topk(count, 1, sorted=False).indices
    near = body.gather(1, chosen[:, :, None].expand(-1, -1, BLOCK)).flatten(1)
    value, spot = torch.cat([near, rest], 1).topk(count, 1)
    inside = spot.clamp(max=count * BLOCK - 1)
    place = chosen.gather(1, inside // BLOCK) * BLOCK + inside % BLOCK
    return value, torch.where(spot < count * BLOCK, place, spot + (blocks - count) * BLOCK)
