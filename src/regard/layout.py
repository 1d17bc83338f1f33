"""Layout: where each token of a batch stands. The only geometry in regard.

Every token carries its position in its document and the number of that document (-1: padding). Masks, positions, padded
batches, packed batches and cache offsets are all read from it, so "a token sees only its own document" is one rule,
always in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

Side = Literal["both", "right"]


@lru_cache(maxsize=16)
def _count(device: torch.device, room: int) -> Tensor:
    with torch.inference_mode(False):  # it is kept, also for those who train
        return torch.arange(room, device=device)[None]


def _positions(start: int, length: int, device: torch.device | str | None) -> Tensor:
    """Float-free slice [1, length] of a shared table, so that a decoding step allocates nothing."""
    room = 1 << max(10, (start + length - 1).bit_length())
    return _count(torch.device(device or "cpu"), room)[:, start : start + length]


@dataclass(frozen=True, eq=False)
class Layout:
    """Position and document of each token of a batch.

    position: Int[B T], place of the token in its document; B may be 1 where all rows are alike.
    document: Int[B T], number of its document within the row, -1 for padding; B as above.
    mark: Int[B T] or None, what an architecture adds (prefix, global token, order of prediction).
    whole: no padding, one document a row, positions start..start+length-1. Such layouts need no mask but the model's own.
    start: position of the first column if `whole`, else 0.
    length: number of columns T.
    longest: number of columns that the longest document spans at most; bounds position tables.
    several: whether a row may have more than one document.

    `whole`, `start`, `length`, `longest`, `several` are Python values set at construction: whoever chooses a path reads
    them, never the value of a tensor.
    """

    position: Tensor
    document: Tensor
    whole: bool
    start: int
    length: int
    longest: int
    mark: Tensor | None = None
    several: bool = False

    @classmethod
    def unpadded(cls, length: int, start: int = 0, device: torch.device | str | None = None) -> Layout:
        """Every row is one document of `length` tokens at positions start, start+1, …"""
        position = _positions(start, length, device)
        return cls(position, torch.zeros_like(position), True, start, length, start + length)

    @classmethod
    def padded(
        cls,
        lengths: Sequence[int],
        length: int | None = None,
        left: bool = False,
        device: torch.device | str | None = None,
    ) -> Layout:
        """One document a row, of the given lengths, filled up to `length` (default: the longest) on the right or left."""
        longest = max(lengths, default=0)
        length = longest if length is None else length
        if longest > length:
            raise ValueError(f"a row of {longest} tokens does not fit into {length} columns")
        if min(lengths, default=length) == length:
            return cls.unpadded(length, device=device)
        column = _positions(0, length, device)
        count = torch.tensor(lengths, device=device)[:, None]
        position = column - (length - count) if left else column.expand(len(lengths), length)
        real = (position >= 0) & (position < count)
        return cls(position.clamp(min=0), real.long() - 1, False, 0, length, longest)

    @classmethod
    def packed(
        cls, rows: Sequence[Sequence[int]], length: int | None = None, device: torch.device | str | None = None
    ) -> Layout:
        """Several documents a row, one after another; `rows[b]` are the lengths of the documents of row b."""
        length = max((sum(row) for row in rows), default=0) if length is None else length
        position = torch.zeros(len(rows), length, dtype=torch.long)
        document = torch.full((len(rows), length), -1, dtype=torch.long)
        for b, row in enumerate(rows):
            if sum(row) > length:
                raise ValueError(f"row {b} has {sum(row)} tokens, more than its {length} columns")
            at = 0
            for number, count in enumerate(row):
                position[b, at : at + count] = torch.arange(count)
                document[b, at : at + count] = number
                at += count
        whole = all(len(row) == 1 and row[0] == length for row in rows)
        longest = max((count for row in rows for count in row), default=0)
        several = any(len(row) > 1 for row in rows)
        return cls(position.to(device), document.to(device), whole, 0, length, longest, None, several)

    @classmethod
    def of_ids(cls, ids: Tensor, pad: int | None, side: Side = "both") -> Layout:
        """Read the padding off token ids [B T]: the run of `pad` at the end of a row, and with side="both" at its
        beginning too. With side="right" position 0 is always real (a decoder may start from pad). pad=None: nothing is
        padding."""
        length = ids.shape[1]
        if pad is None or length == 0:
            return cls.unpadded(length, device=ids.device)
        real = ids != pad
        if side == "right":
            real[:, 0] = True
        column = _positions(0, length, ids.device)
        end = (column + 1).mul(real).amax(1, keepdim=True)
        begin = (
            torch.zeros_like(end)
            if side == "right"
            else column.masked_fill(~real, length).amin(1, keepdim=True).clamp(max=end)
        )
        longest = int((end - begin).amax())
        if bool((begin == 0).all() & (end == length).all()):
            return cls.unpadded(length, device=ids.device)
        inside = (column >= begin) & (column < end)
        return cls((column - begin).clamp(min=0), inside.long() - 1, False, 0, length, longest)

    @property
    def real(self) -> Tensor:
        """Bool[B T], False at padding; B may be 1."""
        return self.document >= 0

    def tokens(self, rows: int) -> int:
        """Number of real tokens in a batch of `rows` rows."""
        return rows * self.length if self.whole else int(self.real.sum())

    def lengths(self, rows: int) -> Tensor:
        """Int[rows], number of real tokens of each row."""
        return self.real.sum(1).expand(rows)

    def take(self, rows: Tensor) -> Layout:
        """The layout of the rows chosen by index; a layout that is alike for all rows stays as it is."""
        mark = self.mark if self.mark is None or self.mark.shape[0] == 1 else self.mark[rows]
        if self.whole or self.position.shape[0] == 1:
            return self if mark is self.mark else replace(self, mark=mark)
        return replace(self, position=self.position[rows], document=self.document[rows], mark=mark)

    def then(self, more: Layout) -> Layout:
        """This layout followed by the columns of another: what the keys of a cache are after a step."""
        if self.length == 0:
            return more
        mark = self._marks(more)
        if self.whole and more.whole and more.start == self.start + self.length:
            both = Layout.unpadded(self.length + more.length, self.start, self.position.device)
            return both if mark is None else replace(both, mark=mark)
        rows = max(self.position.shape[0], more.position.shape[0])
        position, document = (
            torch.cat([a.expand(rows, -1), b.expand(rows, -1)], 1)
            for a, b in ((self.position, more.position), (self.document, more.document))
        )
        longest, several = max(self.longest, more.longest), self.several or more.several
        return Layout(position, document, False, 0, self.length + more.length, longest, mark, several)

    def below(self, rows: int, other: Layout, other_rows: int) -> Layout:
        """The rows of this layout and those of another below them, both filled up on the left with padding. ValueError: they
        are marked."""
        if self.mark is not None or other.mark is not None:
            raise ValueError("rows of tokens that carry marks cannot be joined")
        length = max(self.length, other.length)
        pairs = ((self, rows), (other, other_rows))
        position, document = (
            torch.cat([functional.pad(t(its).expand(n, -1), (length - its.length, 0), value=fill) for its, n in pairs])
            for t, fill in ((lambda its: its.position, 0), (lambda its: its.document, -1))
        )
        longest, several = max(self.longest, other.longest), self.several or other.several
        return Layout(position, document, False, 0, length, longest, None, several)

    def empty(self) -> int:
        """How many columns on the left are padding in all rows."""
        if self.whole:
            return 0
        return int((self.real.any(0).cumsum(0) == 0).sum())

    def last(self, length: int) -> Layout:
        """The last `length` columns of a padded layout."""
        first = self.length - length
        mark = None if self.mark is None else self.mark[:, first:]
        return replace(
            self, position=self.position[:, first:], document=self.document[:, first:], whole=False, length=length, mark=mark
        )

    def _marks(self, more: Layout) -> Tensor | None:
        """The marks of both layouts, zeros where one has none; None if neither has."""
        if self.mark is None and more.mark is None:
            return None
        marks = [torch.zeros_like(its.position) if its.mark is None else its.mark for its in (self, more)]
        rows = max(mark.shape[0] for mark in marks)
        return torch.cat([mark.expand(rows, -1) for mark in marks], 1)

    def first(self, length: int) -> Layout:
        """The first `length` columns."""
        mark = None if self.mark is None else self.mark[:, :length]
        if self.whole:
            kept = Layout.unpadded(length, self.start, self.position.device)
            return kept if mark is None else replace(kept, mark=mark)
        position, document = self.position[:, :length], self.document[:, :length]
        return replace(
            self, position=position, document=document, length=length, longest=min(self.longest, length), mark=mark
        )

    def next(self, count: int = 1) -> Layout:
        """The layout of `count` tokens that go on where this layout's rows end (rows padded on the left or not at all)."""
        if self.whole:
            return Layout.unpadded(count, self.start + self.length, self.position.device)
        position = self.position[:, -1:] + 1 + torch.arange(count, device=self.position.device)
        return Layout(position, self.document[:, -1:].expand(-1, count), False, 0, count, self.longest + count)

    def to(self, device: torch.device | str) -> Layout:
        """The same layout with its tensors on another device."""
        mark = None if self.mark is None else self.mark.to(device)
        return replace(self, position=self.position.to(device), document=self.document.to(device), mark=mark)
