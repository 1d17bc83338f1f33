"""The definition of attention again, in plain loops over numbers, and the layouts and masks that it is tried on."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.layers import masks
from regard.layout import Layout

torch.set_num_threads(1)  # tiny tensors: threads only wait for each other


def sees(mask: masks.Mask, q: tuple[int, int, int], k: tuple[int, int, int]) -> bool:
    """Whether a query sees a key by the words of each mask; both are (position, document, mark)."""
    (at, _, own), (there, _, mark) = q, k
    match mask:
        case masks.Everything():
            return True
        case masks.Causal():
            return there <= at
        case masks.Window(width):
            return abs(at - there) < width
        case masks.Global(count):
            return at < count or there < count
        case masks.Prefix():
            return mark == 1
        case masks.Marked():
            return mark == 1
        case masks.Ordered():
            return mark <= own
        case masks.Strided(stride):
            return (at - there) % stride == 0
        case masks.Blocks(width, beside):
            return abs(at // width - there // width) <= beside
        case masks.Random(width, count, among, seed):
            chance = torch.rand(among, among, generator=torch.Generator().manual_seed(seed)).tolist()
            block, other = at // width, there // width
            return max(block, other) < among and other in sorted(range(among), key=chance[block].__getitem__)[:count]
        case masks.Both(left, right):
            return sees(left, q, k) and sees(right, q, k)
        case masks.Either(left, right):
            return sees(left, q, k) or sees(right, q, k)
        case masks.Not(inner):
            return not sees(inner, q, k)
    raise AssertionError(f"no words for {mask}")


def tokens_of(layout: Layout, rows: int) -> list[list[tuple[int, int, int]]]:
    """(position, document, mark) of every column of every row."""
    mark = torch.zeros_like(layout.position) if layout.mark is None else layout.mark
    fields = (t.expand(rows, -1).tolist() for t in (layout.position, layout.document, mark))
    return [list(zip(*row, strict=True)) for row in zip(*fields, strict=True)]


def define(q, k, v, scale: float, mask: masks.Mask, q_layout: Layout, k_layout: Layout, bias=None):
    """Attention by its definition, number by number in float64: weights [B H Q K] and result [B H Q d]."""
    rows, heads, queries, _ = q.shape
    keys = k.shape[2]
    weights, result = np.zeros((rows, heads, queries, keys)), np.zeros((rows, heads, queries, v.shape[3]))
    asking, answering = tokens_of(q_layout, rows), tokens_of(k_layout, rows)
    for b in range(rows):
        for h in range(heads):
            group = h // (heads // k.shape[1])
            for i in range(queries):
                odds = {}
                for j in range(keys):
                    one, other = asking[b][i], answering[b][j]
                    if other[1] >= 0 and one[1] == other[1] and sees(mask, one, other):
                        score = sum(float(x) * float(y) for x, y in zip(q[b, h, i], k[b, group, j], strict=True)) * scale
                        odds[j] = score + (0.0 if bias is None else float(bias[b, h, i, j]))
                top = max(odds.values(), default=0.0)
                total = sum(math.exp(score - top) for score in odds.values())
                for j, score in odds.items():
                    weights[b, h, i, j] = math.exp(score - top) / total
                    result[b, h, i] += weights[b, h, i, j] * v[b, group, j].numpy()
    return weights, result


def marked(layout: Layout, rows: int) -> Layout:
    """The layout with its first two columns of every document marked 1."""
    return replace(layout, mark=(layout.position < 2).long().expand(rows, -1))


CACHED = marked(Layout.unpadded(5), 2)
CACHED_LEFT = marked(Layout.padded([5, 2], left=True), 2)

LAYOUTS = {
    "whole": (marked(Layout.unpadded(6), 2),) * 2,
    "right": (marked(Layout.padded([6, 3]), 2),) * 2,
    "left": (marked(Layout.padded([2, 6], left=True), 2),) * 2,
    "packed": (marked(Layout.packed([[3, 2], [1, 4]], 6), 2),) * 2,
    "cached": (CACHED.next(3), CACHED.then(CACHED.next(3))),
    "one cached": (CACHED.next(), CACHED.then(CACHED.next())),
    "left cached": (CACHED_LEFT.next(2), CACHED_LEFT.then(CACHED_LEFT.next(2))),
}
"""Layouts of queries and of keys, for two rows."""

MASKS = [
    masks.Everything(),
    masks.Causal(),
    masks.Window(2),
    masks.Global(1),
    masks.Prefix(),
    masks.Strided(2),
    masks.Causal() & masks.Window(3),
    masks.Window(1) | masks.Global(1),
    ~masks.Causal(),
    ~masks.Everything(),
    masks.Causal() | masks.Prefix(),
    masks.Everything() & masks.Causal(),
    masks.Everything() | masks.Window(1),
    masks.Causal() & ~(masks.Strided(2) | masks.Window(2)),
    masks.Window(1) | masks.Marked(),
    masks.Ordered(),
    masks.Blocks(2, 0),
    masks.Causal() & (masks.Blocks(1) | masks.Random(2, 1, 3) | masks.Global(1)),
]


@pytest.fixture(params=MASKS, ids=str)
def mask(request: pytest.FixtureRequest) -> masks.Mask:
    """Each mask, and each way to combine them."""
    return request.param


@pytest.fixture(params=list(LAYOUTS))
def layouts(request: pytest.FixtureRequest) -> tuple[Layout, Layout]:
    """Layouts of queries and of keys, for two rows."""
    return LAYOUTS[request.param]


@pytest.fixture(scope="session")
def definition():
    return define


@pytest.fixture(scope="session")
def words():
    return sees, tokens_of


@pytest.fixture(scope="session")
def every_mask() -> list[masks.Mask]:
    return MASKS
