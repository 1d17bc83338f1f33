"""Beams that share what they have read: a tree of tokens for each sentence, in place of a copy of the past for each beam.

When the beams of a sentence change places, their caches need not be copied: a sentence's keys and values stand in one
cache, in the order in which its beams read them, and each beam looks at those of its own past alone. Its queries then meet
one block of keys, which is faster too than a short block for each beam. Columns from which nobody descends any longer are
let go from time to time.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

SLACK = 20
"""Columns that may be added before those without descendants are looked for: letting them go copies the others."""


class Lineage:
    """Which columns of its sentence's cache are in the past of each beam.

    seen: Float[A w K] for A sentences of w beams: 0 for a column of the beam's own past, minus infinity for others; to be
    added to scores.
    """

    def __init__(self, sentences: int, length: int, like: Tensor) -> None:
        """One beam a sentence, which has read `length` columns. like: a tensor of the type of the scores."""
        self.seen = like.new_zeros(sentences, 1, length)
        self._kept = length

    @property
    def beams(self) -> int:
        """Beams of a sentence."""
        return self.seen.shape[1]

    def grow(self) -> None:
        """Each beam reads a token of its own: `beams` more columns."""
        sentences, beams, _ = self.seen.shape
        own = self.seen.new_full((beams, beams), -math.inf).fill_diagonal_(0.0)
        self.seen = torch.cat([self.seen, own.expand(sentences, -1, -1)], 2)

    def select(self, rows: Tensor) -> None:
        """Make beam i, of all sentences' beams, a child of what beam rows[i] was, of the same sentence."""
        self.seen = self.seen.flatten(0, 1)[rows].unflatten(0, (len(self.seen), -1))

    def keep(self, sentences: Tensor) -> None:
        """Go on with the sentences chosen by index."""
        self.seen = self.seen[sentences]

    def thin(self) -> Tensor | None:
        """The columns Int[A K'] to go on with, in their order, if it is time to let some go; sentences that need fewer are
        filled up with such as nobody sees."""
        if self.seen.shape[2] - self._kept < SLACK:
            return None
        alive = (self.seen == 0.0).any(1)
        self._kept = int(alive.sum(1).max())
        columns = (~alive).to(torch.uint8).sort(dim=1, stable=True).indices[:, : self._kept]
        self.seen = self.seen.gather(2, columns[:, None].expand(-1, self.beams, -1))
        return columns

    def past(self) -> Tensor:
        """The columns Int[A·w T] that each beam has read, in their order."""
        return (self.seen == 0.0).nonzero()[:, 2].view(len(self.seen) * self.beams, -1)
