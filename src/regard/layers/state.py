"""What a decoder reads from and remembers: the memory of an encoder, the caches of its layers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from regard.layers.lineage import Lineage
from regard.layers.masks import Lowered, lower_cross
from regard.layout import Layout


@dataclass(eq=False)
class Memory:
    """What an encoder returns.

    states: Float[B S D], one vector a token. layout: where the tokens stand. final: for recurrent encoders the last
    state of each layer, Float[B L D] (and the LSTM's cells alike), None for stacks of blocks. penalties: what the encoder
    wants held down in training (see `Answer`).
    """

    states: Tensor
    layout: Layout
    final: tuple[Tensor, ...] | None = None
    penalties: dict[str, Tensor] = field(default_factory=dict)

    def take(self, rows: Tensor) -> Memory:
        """The memory of the sentences chosen by index."""
        final = None if self.final is None else tuple(t[rows] for t in self.final)
        return Memory(self.states[rows], self.layout.take(rows), final)


class Cache:
    """Keys and values of one layer: its own tokens' (grown in place within a preallocated room), the memory's (fixed).

    pair: Float[R room 2 G d], keys and values side by side, so that a step writes both and `select` copies both at once. R
    is the number of rows or, while beams share a cache, that of the sentences.
    """

    def __init__(self, room: int, across: tuple[Tensor, Tensor] | None = None) -> None:
        self.room, self.length = max(room, 1), 0
        self.pair: Tensor | None = None
        self._across = across
        self._spare: Tensor | None = None
        self._shown = False

    @property
    def keys(self) -> Tensor | None:
        """Float[R G room d], of which `length` columns are filled."""
        return None if self.pair is None else self.pair[:, :, 0].transpose(1, 2)

    @property
    def values(self) -> Tensor | None:
        """The same of the values."""
        return None if self.pair is None else self.pair[:, :, 1].transpose(1, 2)

    @property
    def across(self) -> tuple[Tensor, Tensor]:
        """Keys and values [B G S d] of the memory."""
        if self._across is None:
            raise RuntimeError("this layer's cache was started without a memory")
        return self._across

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values [R G T d] of new tokens; gives those of all tokens so far."""
        first, end = self.length, self.length + k.shape[2]
        pair = self._held(k.shape[0], k.shape[1], k.shape[3], end, k)
        pair[:, first:end, 0], pair[:, first:end, 1] = k.transpose(1, 2), v.transpose(1, 2)
        self.length = end
        return self._filled(pair)

    def push(self, pair: Tensor, beams: int = 1) -> tuple[Tensor, Tensor]:
        """Add those of one token a row, Float[R 2 G d]. beams: rows that share a cache, a column for each."""
        rows, _, groups, width = pair.shape
        first, end = self.length, self.length + beams
        held = self._held(rows // beams, groups, width, end, pair)
        held[:, first:end] = pair.view(rows // beams, beams, 2, groups, width)
        self.length = end
        return self._filled(held)

    def _filled(self, pair: Tensor) -> tuple[Tensor, Tensor]:
        k, v = pair.narrow(1, 0, self.length).permute(2, 0, 3, 1, 4).unbind(0)
        return k, v

    def _held(self, rows: int, groups: int, width: int, end: int, like: Tensor) -> Tensor:
        """The pair, with room for `end` columns."""
        if self.pair is None:
            self.pair = like.new_empty(rows, max(self.room, end), 2, groups, width)
        elif end > self.pair.shape[1]:  # the room was too small: double it
            more = max(end, 2 * self.pair.shape[1]) - self.pair.shape[1]
            self.pair = functional.pad(self.pair, (0, 0, 0, 0, 0, 0, 0, more))
            self._spare = None
        return self.pair

    def show(self) -> None:
        """Somebody who looks on may have kept what `extend` gave: memory that he sees is not filled again."""
        self._shown, self._spare = True, None

    def select(self, rows: Tensor) -> None:
        """Keep the rows chosen by index, in that order; only what is filled is copied. Two buffers take turns: fresh memory
        at every step of a beam search would cost more than the copy."""
        if self.pair is None:
            return
        old, new, count = self.pair, self._spare, len(rows)
        if new is None or len(new) < count or new.shape[1:] != old.shape[1:]:
            new = old.new_empty(count, *old.shape[1:])
        new = new[:count]
        torch.index_select(old[:, : self.length], 0, rows, out=new[:, : self.length])
        self.pair, self._spare = new, None if self._shown else old

    def pick(self, columns: Tensor, beams: int = 1) -> None:
        """Keep columns Int[R·beams T] of each row, chosen by index, for as many rows as there are lists of them."""
        old = self.pair
        if old is None:
            return
        first = torch.arange(len(old), device=columns.device).repeat_interleave(beams)[:, None] * old.shape[1]
        found = old.flatten(0, 1).index_select(0, (first + columns).flatten())
        self.pair, self._spare = old.new_empty(len(columns), *old.shape[1:]), None
        self.length = columns.shape[1]
        self.pair[:, : self.length] = found.view(*columns.shape, *old.shape[2:])

    def join(self, other: Cache, length: int) -> None:
        """Add the rows of another cache below; both are filled up on the left to `length` columns of zeros."""
        upper, lower, room = self.pair, other.pair, max(self.room, other.room, length)
        assert upper is not None
        assert lower is not None
        new = upper.new_zeros(len(upper) + len(lower), room, *upper.shape[2:])
        new[: len(upper), length - self.length : length] = upper[:, : self.length]
        new[len(upper) :, length - other.length : length] = lower[:, : other.length]
        self.pair, self._spare = new, None
        self.room, self.length = room, length

    def trim(self, first: int) -> None:
        """Forget the first columns."""
        assert self.pair is not None
        new = torch.empty_like(self.pair)
        new[:, : self.length - first] = self.pair[:, first : self.length]
        self.pair, self._spare = new, None
        self.length -= first

    def keep(self, sentences: Tensor) -> None:
        """Keep the memory's rows chosen by index."""
        if self._across is not None:
            self._across = (self._across[0][sentences], self._across[1][sentences])


class BlockState:
    """The state of a stack of blocks: one cache a layer, the layout of the tokens read, the memory. quick: a faster body for
    steps of one token a row (`regard.layers.quick`), or None. lineage: while that body runs, the beams of a sentence may
    share its caches; None while each row has its own.

    A row is a hypothesis; a sentence has one row or more (its beams), next to each other, and one row of the memory.
    """

    def __init__(self, caches: list[Cache], memory: Memory | None, layout: Layout) -> None:
        self.caches, self.memory, self.layout = caches, memory, layout
        self.rows = self.sentences = 0 if memory is None else memory.states.shape[0]
        self.penalties: dict[str, Tensor] = {}
        self.quick: Any = None
        self.lineage: Lineage | None = None
        self._look: Lowered | None = None

    @property
    def length(self) -> int:
        """Number of columns read so far."""
        return self.layout.length

    def look(self, layout: Layout) -> Lowered:
        """The mask under which tokens see the memory: kept as long as the memory is. Where there are caches, their keys and
        values of padding are zeros."""
        if self.memory is None:
            return Lowered()
        if self._look is None or self.memory.layout.several:
            found = lower_cross(layout, self.memory.layout)
            self._look = replace(found, absent=None) if self.caches else found
        return self._look

    def read(self, layout: Layout, rows: int) -> None:
        """Note the layout of the tokens that are read now, in so many rows."""
        if self.memory is None and not self.length:
            self.rows = self.sentences = rows
        if rows != self.rows:
            raise ValueError(f"{rows} rows of tokens for a state of {self.rows}")
        self.layout = self.layout.then(layout)

    def select(self, rows: Tensor) -> None:
        """Make row i a copy of what row rows[i] was. Rows stay next to those of their sentence, with as many for each;
        the memory is not touched."""
        self.layout = self.layout.take(rows)
        if self.lineage is None and len(rows) > self.rows == self.sentences and self._shares():
            assert self.caches[0].pair is not None
            self.lineage = Lineage(self.rows, self.caches[0].length, self.caches[0].pair)
        self.rows = len(rows)
        if self.lineage is None:
            for cache in self.caches:
                cache.select(rows)
            return
        self.lineage.select(rows)
        columns = self.lineage.thin()
        if columns is not None:
            for cache in self.caches:
                cache.pick(columns)

    def _shares(self) -> bool:
        """Whether the beams that come now may share caches: on a GPU, copies cost little."""
        if self.quick is None or not self.quick.branches or not self.layout.whole or self.quick.watched():
            return False
        return self.caches[0].pair is not None and self.caches[0].pair.device.type == "cpu"

    def settle(self) -> None:
        """Give each row caches of its own again."""
        if self.lineage is None:
            return
        columns, beams = self.lineage.past(), self.lineage.beams
        self.lineage = None
        for cache in self.caches:
            cache.pick(columns, beams)

    def keep(self, sentences: Tensor) -> None:
        """Drop all sentences but those chosen by index, with their rows and their memory."""
        beams = self.rows // self.sentences
        rows = (sentences[:, None] * beams + torch.arange(beams, device=sentences.device)).flatten()
        if self.lineage is None:
            self.select(rows)
        else:
            self.layout, self.rows = self.layout.take(rows), len(rows)
            self.lineage.keep(sentences)
            for cache in self.caches:
                cache.select(sentences)
        self.sentences, self._look = len(sentences), None
        if self.memory is not None:
            self.memory = self.memory.take(sentences)
        for cache in self.caches:
            cache.keep(sentences)

    def join(self, other: BlockState) -> None:
        """Add the rows of another state of the same decoder below, neither with a memory. The one that has read fewer
        columns is filled up with padding on the left."""
        if self.memory is not None or other.memory is not None:
            raise ValueError("states that read a memory cannot be joined")
        self.settle()
        other.settle()
        length = max(self.length, other.length)
        for mine, its in zip(self.caches, other.caches, strict=True):
            mine.join(its, length)
        self.layout = self.layout.below(self.rows, other.layout, other.rows)
        self.rows += other.rows
        self.sentences = self.rows

    def trim(self, least: int = 1) -> None:
        """Forget the columns on the left that are padding in all rows, if there are so many at least."""
        empty = self.layout.empty()
        if empty < least:
            return
        self.settle()
        self.layout = self.layout.last(self.length - empty)
        for cache in self.caches:
            cache.trim(empty)

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` columns."""
        self.settle()
        self.layout = self.layout.first(length)
        for cache in self.caches:
            cache.length = length
