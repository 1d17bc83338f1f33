"""Masks as values. Each is one elementwise rule on the layouts of queries and keys; & | ~ combine them.

A mask that is mostly empty says so in `reach`; `lower` then cuts it into blocks, and attention costs what is left.

That a token sees only real tokens of its own document is not a mask but the law, added by `lower` to every one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from regard.layers.blocks import Blocked, Grid, Reach, blocked
from regard.layers.part import part
from regard.layout import Layout


@dataclass(frozen=True, eq=False)
class Lowered:
    """A mask made ready for one pass.

    allowed: Bool[B|1 1 Q K], or None where `causal`, `blocked` or nothing at all limits what is seen.
    causal: query i sees keys up to i, with as many keys as queries; `allowed` is None then.
    absent: Bool[B K], keys that are padding, or None; what they hold must never reach a result, not even NaN.
    blocked: the mask in blocks, where most of it is empty; `allowed` is None then.
    """

    allowed: Tensor | None = None
    causal: bool = False
    absent: Tensor | None = None
    blocked: Blocked | None = None

    def dense(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """Bool[B|1 1 Q K], whatever the form; None if everything is allowed."""
        if self.causal:
            return torch.ones(queries, keys, dtype=torch.bool, device=device).tril_()[None, None]
        return self.allowed if self.blocked is None else self.blocked.dense()


class Mask:
    """Says which keys a query sees: `allows` is elementwise, its layouts' fields broadcast."""

    def allows(self, q: Layout, k: Layout) -> Tensor | None:
        """Bool[B|1 Q K], or None for everything."""
        raise NotImplementedError

    def reach(self, grid: Grid) -> Reach:
        """Where it is not empty, at most; anywhere, if a mask does not say."""
        return Reach()

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either(self, other)

    def __invert__(self) -> Mask:
        return Not(self)


def _distance(q: Layout, k: Layout) -> Tensor:
    return q.position[:, :, None] - k.position[:, None, :]


@part
class Everything(Mask):
    """A query sees every token of its document."""

    def allows(self, q: Layout, k: Layout) -> Tensor | None:
        return None


@part
class Causal(Mask):
    """A query sees itself and what stands before it."""

    def allows(self, q: Layout, k: Layout) -> Tensor:
        return _distance(q, k) >= 0

    def reach(self, grid: Grid) -> Reach:
        return Reach(grid.band(None, 0))


@part
class Window(Mask):
    """A query sees keys less than `width` positions away, on both sides."""

    width: int

    def allows(self, q: Layout, k: Layout) -> Tensor:
        return _distance(q, k).abs() < self.width

    def reach(self, grid: Grid) -> Reach:
        return Reach(grid.band(self.width - 1, self.width - 1))


@part
class Global(Mask):
    """The first `count` tokens of a document see all of it and are seen by all of it."""

    count: int

    def allows(self, q: Layout, k: Layout) -> Tensor:
        return (q.position < self.count)[:, :, None] | (k.position < self.count)[:, None, :]

    def reach(self, grid: Grid) -> Reach:
        asking, seen = ((its.position < self.count) & its.real for its in (grid.q, grid.k))
        return Reach(grid.nothing(), asking, seen)


@part
class Prefix(Mask):
    """Tokens marked 1 are a prefix, seen by all; the layout must carry marks."""

    def allows(self, q: Layout, k: Layout) -> Tensor:
        if k.mark is None:
            raise ValueError("the mask Prefix reads Layout.mark, and this layout has none")
        return (k.mark == 1)[:, None, :]

    def reach(self, grid: Grid) -> Reach:
        return Reach() if grid.k.mark is None else Reach(grid.nothing(), seen=(grid.k.mark == 1) & grid.k.real)


@part
class Marked(Mask):
    """Tokens marked 1 are seen by all of their document; where the layout has no marks, its first `first` tokens."""

    first: int = 0

    def chosen(self, layout: Layout) -> Tensor:
        """Bool[B|1 T]: which tokens these are."""
        return (layout.position < self.first if layout.mark is None else layout.mark == 1) & layout.real

    def allows(self, q: Layout, k: Layout) -> Tensor:
        return self.chosen(k)[:, None, :]

    def reach(self, grid: Grid) -> Reach:
        return Reach(grid.nothing(), seen=self.chosen(grid.k))


@part
class Ordered(Mask):
    """A query sees keys whose mark is not above its own, so that marks are an order in which tokens become known. No mark
    is mark 0."""

    def allows(self, q: Layout, k: Layout) -> Tensor | None:
        if q.mark is None and k.mark is None:
            return None
        asked, key = (torch.zeros_like(its.position) if its.mark is None else its.mark for its in (q, k))
        return key[:, None, :] <= asked[:, :, None]


@part
class Strided(Mask):
    """A query sees keys whose distance is a multiple of `stride`."""

    stride: int

    def allows(self, q: Layout, k: Layout) -> Tensor:
        return _distance(q, k) % self.stride == 0


@part
class Blocks(Mask):
    """Documents are cut into blocks of `width` tokens; a query sees its own block and `beside` blocks on each side (Zaheer
    et al. 2020, BigBird's sliding window)."""

    width: int
    beside: int = 1

    def allows(self, q: Layout, k: Layout) -> Tensor:
        return (q.position // self.width)[:, :, None].sub((k.position // self.width)[:, None, :]).abs() <= self.beside

    def reach(self, grid: Grid) -> Reach:
        far = (self.beside + 1) * self.width - 1
        return Reach(grid.band(far, far))


@lru_cache(maxsize=32)
def _drawn(count: int, among: int, seed: int) -> Tensor:
    """Bool[among among]: for each block of queries `count` blocks of keys."""
    with torch.inference_mode(False):  # it is kept, also for those who train
        chance = torch.rand(among, among, generator=torch.Generator().manual_seed(seed))
        return torch.zeros(among, among, dtype=torch.bool).scatter_(1, chance.argsort(1)[:, :count], True)


@part
class Random(Mask):
    """Documents are cut into blocks of `width` tokens; a block of queries sees `count` blocks of keys, drawn once for all
    by `seed` among the first `among` blocks (Zaheer et al. 2020, BigBird). What lies past a text's end is not there, and
    tokens past the last of the `among` blocks see nothing by this mask."""

    width: int
    count: int = 3
    among: int = 64
    seed: int = 0

    def allows(self, q: Layout, k: Layout) -> Tensor:
        asked, key = (its.position // self.width for its in (q, k))
        last = self.among - 1
        drawn = _drawn(self.count, self.among, self.seed).to(asked.device)
        inside = (asked <= last)[:, :, None] & (key <= last)[:, None, :]
        return drawn[asked.clamp(max=last)[:, :, None], key.clamp(max=last)[:, None, :]] & inside

    def reach(self, grid: Grid) -> Reach:
        return Reach(grid.pieces(_drawn(self.count, self.among, self.seed), self.width))


@part
class Both(Mask):
    """What both masks allow."""

    left: Mask
    right: Mask

    def allows(self, q: Layout, k: Layout) -> Tensor | None:
        left, right = self.left.allows(q, k), self.right.allows(q, k)
        return right if left is None else left if right is None else left & right

    def reach(self, grid: Grid) -> Reach:
        return self.left.reach(grid).both(self.right.reach(grid))


@part
class Either(Mask):
    """What one of the masks allows."""

    left: Mask
    right: Mask

    def allows(self, q: Layout, k: Layout) -> Tensor | None:
        left, right = self.left.allows(q, k), self.right.allows(q, k)
        return None if left is None or right is None else left | right

    def reach(self, grid: Grid) -> Reach:
        return self.left.reach(grid).either(self.right.reach(grid))


@part
class Not(Mask):
    """What the mask forbids."""

    mask: Mask

    def allows(self, q: Layout, k: Layout) -> Tensor:
        allowed = self.mask.allows(q, k)
        if allowed is None:
            return torch.zeros(1, q.length, k.length, dtype=torch.bool, device=q.position.device)
        return ~allowed


def lower(mask: Mask, q: Layout, k: Layout, size: int | None = None) -> Lowered:
    """Make `mask` ready for queries `q`, which are the last columns of the keys `k`, with the law that a token sees only its
    own document. size: cut it into blocks of so many columns; None: where that saves half of the work or more."""
    plain = q.whole and k.whole
    if plain and mask == Everything() and size is None:
        return Lowered()
    if plain and mask == Causal() and size is None:
        if q.start >= k.start + k.length - 1:
            return Lowered()
        if q.start == k.start and q.length == k.length:
            return Lowered(causal=True)
    absent = None if plain else ~k.real
    cut = blocked(mask, q, k, size)
    if cut is not None:
        return Lowered(absent=absent, blocked=cut)
    allowed = mask.allows(q, k)
    if plain:
        return Lowered(None if allowed is None else allowed[:, None])
    own = (q.document[:, :, None] == k.document[:, None, :]) & k.real[:, None, :]
    return Lowered((own if allowed is None else own & allowed)[:, None], absent=absent)


def lower_cross(q: Layout, memory: Layout) -> Lowered:
    """Every query sees every real token of its sentence's memory, Bool[B|1 1 1 S], or where the memory's rows have several
    documents of the document of its own number, Bool[B 1 Q S]."""
    if memory.whole:
        return Lowered()
    if memory.several:
        own = (q.document[:, :, None] == memory.document[:, None, :]) & memory.real[:, None, :]
        return Lowered(own[:, None], absent=~memory.real)
    return Lowered(memory.real[:, None, None, :], absent=~memory.real)
