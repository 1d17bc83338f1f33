"""How a mask says where it is empty, so that attention need not look there.

Columns of queries and keys are cut into blocks. A mask's `reach` is an upper bound: which blocks of keys a block of queries
may see, and which single tokens stand out because they may see everything or be seen by everything. From it `blocked` makes
what a body of attention needs to do no more than that; what exactly is allowed within it, the mask's own rule says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from regard.layout import Layout

SIZE = 64
"""Columns of a block, unless a caller says otherwise."""


@dataclass(frozen=True, eq=False)
class Reach:
    """near: Bool[nq nk], whether a block of queries may see anything in a block of keys; None for all. asking: Bool[B|1 Q],
    queries that may see more than that; seen: Bool[B|1 K], keys that may be seen from anywhere. None: there are none."""

    near: Tensor | None = None
    asking: Tensor | None = None
    seen: Tensor | None = None

    def both(self, other: Reach) -> Reach:
        """A bound of what both allow."""
        near = self.near if other.near is None else other.near if self.near is None else self.near & other.near
        if other.near is None and other.asking is None and other.seen is None:
            return self
        if self.near is None and self.asking is None and self.seen is None:
            return other
        return Reach(near, _any(self.asking, other.asking), _any(self.seen, other.seen))

    def either(self, other: Reach) -> Reach:
        """A bound of what one of them allows."""
        near = None if self.near is None or other.near is None else self.near | other.near
        return Reach(near, _any(self.asking, other.asking), _any(self.seen, other.seen))


def _any(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return one if other is None else other if one is None else one | other


@dataclass(frozen=True, eq=False)
class Grid:
    """Queries and keys whose columns are cut into blocks of `size`. The queries are the keys' last columns, and documents
    stand in one piece: within one, columns are as far apart as positions."""

    q: Layout
    k: Layout
    size: int

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of blocks of queries and of keys."""
        return -(-self.q.length // self.size), -(-self.k.length // self.size)

    def band(self, back: int | None, ahead: int | None) -> Tensor:
        """Bool[nq nk]: keys at most so many columns back and ahead of some query of the block; None for any number."""
        rows, columns = self.shape
        first = torch.arange(rows)[:, None] * self.size + self.k.length - self.q.length
        key = torch.arange(columns)[None] * self.size
        near = torch.ones(rows, columns, dtype=torch.bool)
        if back is not None:
            near &= key + self.size - 1 >= first - back
        if ahead is not None:
            near &= key <= first + self.size - 1 + ahead
        return near

    def nothing(self) -> Tensor:
        """Bool[nq nk], all False."""
        return torch.zeros(self.shape, dtype=torch.bool)

    def pieces(self, drawn: Tensor, width: int) -> Tensor:
        """Bool[nq nk]: where query blocks of `width` positions see the key blocks drawn for them. drawn: Bool[N N]."""
        rows = max(self.q.position.shape[0], self.k.position.shape[0])
        position = self.q.position.expand(rows, -1)
        column = torch.arange(self.q.length, device=position.device) + self.k.length - self.q.length
        piece, begin = position // width, column - position
        real = (self.q.document.expand(rows, -1) >= 0) & (piece < len(drawn))
        row, at = real.nonzero(as_tuple=True)
        which, there = drawn.to(position.device)[piece[row, at]].nonzero(as_tuple=True)
        first = begin[row, at][which] + there * width
        near = self.nothing().to(position.device)
        for step in range(0, width + self.size, self.size):  # a piece lies in so many blocks at most
            key = (first + min(step, width - 1)) // self.size
            inside = (key >= 0) & (key < self.shape[1])
            near[(at // self.size)[which][inside], key[inside]] = True
        return near.cpu()


@dataclass(frozen=True, eq=False)
class Spots:
    """Tokens that stand out, gathered. columns: Int[B|1 g], where they stand, `length` where a row has fewer than others;
    valid: Bool[B|1 g]."""

    columns: Tensor
    valid: Tensor
    length: int

    @classmethod
    def of(cls, chosen: Tensor) -> Spots | None:
        """The tokens of Bool[B T] that are True; None if there are none. How many there are is read off the tensor."""
        count = int(chosen.sum(1).amax()) if chosen.numel() else 0
        if not count:
            return None
        length = chosen.shape[1]
        column = torch.arange(length, device=chosen.device).expand_as(chosen)
        columns = column.masked_fill(~chosen, length).sort(1).values[:, :count]
        return cls(columns, columns < length, length)

    def take(self, x: Tensor, dim: int) -> Tensor:
        """The spots' rows of x [B … T …], along `dim`; where there is none, those of the last token."""
        index = self.columns.clamp(max=self.length - 1)
        shape = [1] * x.dim()
        shape[0], shape[dim] = index.shape
        wanted = list(x.shape)
        wanted[dim] = index.shape[1]
        return x.gather(dim, index.view(shape).expand(wanted))

    def put(self, x: Tensor, new: Tensor, dim: int) -> Tensor:
        """x [B … T …] with its rows at the spots replaced by those of `new`, where `dim` counts spots."""
        shape = [1] * x.dim()
        shape[0], shape[dim] = self.columns.shape
        wanted = list(x.shape)
        wanted[dim] = 1
        more = torch.cat([x, x.new_zeros(wanted)], dim)
        return more.scatter(dim, self.columns.view(shape).expand_as(new), new).narrow(dim, 0, x.shape[dim])

    def layout(self, layout: Layout) -> Layout:
        """Where the spots stand; padding where there is none."""
        fields = [t for t in (layout.position, layout.document, layout.mark) if t is not None]
        rows, count = max(t.shape[0] for t in (self.columns, *fields)), self.columns.shape[1]
        index = self.columns.clamp(max=self.length - 1).expand(rows, -1)
        position, document, *mark = (t.expand(rows, -1).gather(1, index) for t in fields)
        document = document.masked_fill(~self.valid, -1)
        return Layout(position, document, False, 0, count, layout.longest, mark[0] if mark else None, layout.several)


@dataclass(frozen=True, eq=False)
class Blocked:
    """A mask in blocks. Every query sees at most the keys of its block's chosen blocks and those that stand out.

    size: columns of a block. chosen: Int[nq m], blocks of keys that each block of queries looks at. seen: keys that stand
    out, looked at by all queries and not counted among the chosen blocks. allowed: Bool[B|1 nq size m·size+g], what is
    allowed of these. asking: queries that see everything, with everything: Bool[B|1 1 g K]; their rows are made apart.
    dense: the same mask as Bool[B|1 1 Q K].
    """

    size: int
    chosen: Tensor
    allowed: Tensor
    seen: Spots | None
    asking: Spots | None
    everything: Tensor | None
    dense: Callable[[], Tensor]


def cut(layout: Layout, size: int, rows: int) -> Layout:
    """A layout of `rows` rows cut into blocks: each is a row of its own, filled up with padding at the end."""
    blocks = -(-layout.length // size)
    room = blocks * size - layout.length

    def each(t: Tensor, filler: int) -> Tensor:
        return torch.nn.functional.pad(t.expand(rows, -1), (0, room), value=filler).reshape(rows * blocks, size)

    mark = None if layout.mark is None else each(layout.mark, 0)
    return replace(
        layout, position=each(layout.position, 0), document=each(layout.document, -1), mark=mark, whole=False, length=size
    )


def gathered(layout: Layout, chosen: Tensor, rows: int) -> Layout:
    """Of a layout that was cut, for each block of queries the blocks of keys that it looks at, in one row of their own."""
    size, m = layout.length, chosen.shape[1]

    def each(t: Tensor) -> Tensor:
        return t.view(rows, -1, size)[:, chosen.flatten()].reshape(rows * len(chosen), m * size)

    mark = None if layout.mark is None else each(layout.mark)
    return replace(layout, position=each(layout.position), document=each(layout.document), mark=mark, length=m * size)


def blocked(mask: Any, q: Layout, k: Layout, size: int | None = None) -> Blocked | None:
    """A mask in blocks; None where that would not save at least half of the work. size: columns of a block, and then the
    mask is cut into blocks of that size whatever it saves."""
    forced, size = size is not None, size or SIZE
    if not forced and (q.length < 4 * size or k.length < q.length):
        return None
    grid = Grid(q, k, size)
    reach: Reach = mask.reach(grid)
    if reach.near is None and not forced:
        return None
    near = grid.band(None, None) if reach.near is None else reach.near
    most = max(int(near.sum(1).amax()), 1)
    if not forced and 2 * most * size > k.length:
        return None
    seen, asking = (None if spots is None else Spots.of(spots) for spots in (reach.seen, reach.asking))
    if not forced and 2 * (most * size + (0 if seen is None else seen.columns.shape[1])) > k.length:
        return None
    # The chosen blocks of a row come first, in order; where a row has fewer than others, any block fills the place.
    order = torch.where(near, torch.arange(near.shape[1]), near.shape[1] + torch.arange(near.shape[1])).argsort(1)
    chosen = order[:, :most].to(q.position.device)
    filler = (~near).gather(1, order[:, :most]).to(q.position.device)
    allowed = _allowed(mask, q, k, size, chosen, filler, seen)
    everything = None if asking is None else exactly(mask, asking.layout(q), k)[:, None]
    return Blocked(size, chosen, allowed, seen, asking, everything, lambda: exactly(mask, q, k)[:, None])


def _allowed(mask: Any, q: Layout, k: Layout, size: int, chosen: Tensor, filler: Tensor, seen: Spots | None) -> Tensor:
    """Bool[B|1 nq size m·size+g]; see `Blocked`."""
    fields = [t for its in (q, k) for t in (its.position, its.mark) if t is not None]
    rows = max(t.shape[0] for t in [*fields, *([] if seen is None else [seen.columns])])
    asked, keys = cut(q, size, rows), cut(k, size, rows)
    own = exactly(mask, asked, gathered(keys, chosen, rows)).unflatten(0, (rows, len(chosen)))
    own = own & ~filler.repeat_interleave(size, 1)[None, :, None]
    if seen is None:
        return own
    out = torch.zeros(rows, k.length + 1, dtype=torch.bool, device=own.device)
    out = out.scatter(1, seen.columns.expand(rows, -1), True)[:, :-1]
    out = torch.nn.functional.pad(out, (0, -k.length % size)).view(rows, -1, size)
    own = own & ~out[:, chosen.flatten()].reshape(rows, len(chosen), 1, -1)
    spots = seen.layout(k)
    each = replace(
        spots,
        position=spots.position.expand(rows, -1).repeat_interleave(len(chosen), 0),
        document=spots.document.expand(rows, -1).repeat_interleave(len(chosen), 0),
        mark=None if spots.mark is None else spots.mark.expand(rows, -1).repeat_interleave(len(chosen), 0),
    )
    return torch.cat([own, exactly(mask, asked, each).unflatten(0, (rows, len(chosen)))], -1)


def exactly(mask: Any, q: Layout, k: Layout) -> Tensor:
    """Bool[B|1 Q K]: what the mask allows among real tokens of the same document."""
    allowed = mask.allows(q, k)
    own = (q.document[:, :, None] == k.document[:, None, :]) & (k.document >= 0)[:, None, :]
    return own if allowed is None else own & allowed
