"""What a decoder reads from and remembers: the memory of an encoder, the caches of its layers."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional

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
    """Keys and values of one layer: its own tokens' (grown in place within a preallocated room), the memory's (fixed)."""

    def __init__(self, room: int, across: tuple[Tensor, Tensor] | None = None) -> None:
        self.room, self.length = max(room, 1), 0
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self._across = across

    @property
    def across(self) -> tuple[Tensor, Tensor]:
        """Keys and values [B G S d] of the memory."""
        if self._across is None:
            raise RuntimeError("this layer's cache was started without a memory")
        return self._across

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add the keys and values [R G T d] of new tokens; gives those of all tokens so far."""
        end = self.length + k.shape[2]
        if self.keys is None or self.values is None:
            self.keys, self.values = (t.new_empty(*t.shape[:2], max(self.room, end), t.shape[3]) for t in (k, v))
        elif end > self.keys.shape[2]:  # the room was too small: double it
            more = max(end, 2 * self.keys.shape[2]) - self.keys.shape[2]
            self.keys, self.values = (functional.pad(t, (0, 0, 0, more)) for t in (self.keys, self.values))
        self.keys[:, :, self.length : end], self.values[:, :, self.length : end] = k, v
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def select(self, rows: Tensor) -> None:
        """Keep the rows chosen by index, in that order; only what is filled is copied."""
        if self.keys is None or self.values is None:
            return
        kept = []
        for t in (self.keys, self.values):
            new = t.new_empty(len(rows), *t.shape[1:])
            new[:, :, : self.length] = t[:, :, : self.length][rows]
            kept.append(new)
        self.keys, self.values = kept

    def join(self, other: Cache, length: int) -> None:
        """Add the rows of another cache below; both are filled up on the left to `length` columns of zeros."""
        mine, its = (self.keys, self.values), (other.keys, other.values)
        room = max(self.room, other.room, length)
        joined = []
        for upper, lower in zip(mine, its, strict=True):
            assert upper is not None
            assert lower is not None
            new = upper.new_zeros(len(upper) + len(lower), upper.shape[1], room, upper.shape[3])
            new[: len(upper), :, length - self.length : length] = upper[:, :, : self.length]
            new[len(upper) :, :, length - other.length : length] = lower[:, :, : other.length]
            joined.append(new)
        self.keys, self.values = joined
        self.room, self.length = room, length

    def trim(self, first: int) -> None:
        """Forget the first columns."""
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = torch.empty_like(old)
            new[:, :, : self.length - first] = old[:, :, first : self.length]
            setattr(self, name, new)
        self.length -= first

    def keep(self, sentences: Tensor) -> None:
        """Keep the memory's rows chosen by index."""
        if self._across is not None:
            self._across = (self._across[0][sentences], self._across[1][sentences])


class BlockState:
    """The state of a stack of blocks: one cache a layer, the layout of the tokens read, the memory.

    A row is a hypothesis; a sentence has one row or more (its beams), next to each other, and one row of the memory.
    """

    def __init__(self, caches: list[Cache], memory: Memory | None, layout: Layout) -> None:
        self.caches, self.memory, self.layout = caches, memory, layout
        self.rows = self.sentences = 0 if memory is None else memory.states.shape[0]
        self.penalties: dict[str, Tensor] = {}

    @property
    def length(self) -> int:
        """Number of columns read so far."""
        return self.layout.length

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
        self.rows = len(rows)
        for cache in self.caches:
            cache.select(rows)

    def keep(self, sentences: Tensor) -> None:
        """Drop all sentences but those chosen by index, with their rows and their memory."""
        beams = self.rows // self.sentences
        self.select((sentences[:, None] * beams + torch.arange(beams, device=sentences.device)).flatten())
        self.sentences = len(sentences)
        if self.memory is not None:
            self.memory = self.memory.take(sentences)
        for cache in self.caches:
            cache.keep(sentences)

    def join(self, other: BlockState) -> None:
        """Add the rows of another state of the same decoder below, neither with a memory. The one that has read fewer
        columns is filled up with padding on the left."""
        if self.memory is not None or other.memory is not None:
            raise ValueError("states that read a memory cannot be joined")
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
        self.layout = self.layout.last(self.length - empty)
        for cache in self.caches:
            cache.trim(empty)

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` columns."""
        self.layout = self.layout.first(length)
        for cache in self.caches:
            cache.length = length
