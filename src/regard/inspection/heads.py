"""What a head does, at a glance: numbers and small pictures of its weights, made without all weights in memory at once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

CELLS = 64
"""Most rows and columns of an overview."""
KEPT, LEAST = 8, 0.02
"""So many keys of a query are kept of a long text, if they weigh at least so much."""
REACH = 32
"""How far from a query keys are told apart by their distance."""


class Glance:
    """What there is to tell of an attention's weights Float[H Q K], whose rows are added a few at a time, in order.

    A query that sees nothing counts for nothing in a mean.
    """

    def __init__(self, heads: int, rows: int, columns: int, device: torch.device | None = None) -> None:
        self.rows, self.columns, self.added = rows, columns, 0
        self.tall, self.wide = (-(-count // CELLS) for count in (rows, columns))
        self.reach = min(REACH, max(rows, columns) - 1)

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(heads, *shape, device=device)

        self._sees = zeros(rows)
        self._entropy, self._distance, self._first, self._rest = (zeros(rows) for _ in range(4))
        self._largest, self._sums = (zeros(rows, -(-columns // self.wide)) for _ in range(2))
        self._offsets, self._counts = zeros(2 * self.reach + 1), torch.zeros(2 * self.reach + 1, device=device)
        self._keys, self._values = zeros(rows, KEPT).int() - 1, zeros(rows, KEPT)

    def add(self, weights: Tensor) -> None:
        """Take the next rows, Float[H q K]."""
        here = slice(self.added, self.added + weights.shape[1])
        self.added = here.stop
        rows = torch.arange(here.start, here.stop, device=weights.device)
        far = torch.arange(self.columns, device=weights.device)[None] - rows[:, None]
        self._sees[:, here] = (weights.sum(-1) > 0).float()
        self._entropy[:, here] = -(weights * weights.clamp(min=1e-12).log()).sum(-1)
        self._distance[:, here] = (weights * far.abs()).sum(-1)
        self._first[:, here] = weights[:, :, 0]
        pieces = _pieces(weights, self.wide)
        self._largest[:, here], self._sums[:, here] = pieces.amax(-1), pieces.sum(-1)
        near = far.abs() <= self.reach
        index = far[near] + self.reach
        self._offsets.index_add_(1, index, weights[:, near])
        self._counts += torch.bincount(index, minlength=len(self._counts))
        value, key = weights.topk(min(KEPT, self.columns), -1)
        strong = value >= LEAST
        value = value * strong
        self._values[:, here, : value.shape[2]] = value
        self._keys[:, here, : key.shape[2]] = torch.where(strong, key, -1).int()
        self._rest[:, here] = (weights.sum(-1) - value.sum(-1)).clamp(min=0)

    def _mean(self, each: Tensor) -> list[float]:
        return ((each * self._sees).sum(-1) / self._sees.sum(-1).clamp(min=1)).tolist()

    def entropy(self) -> list[float]:
        """Nats, of each head the mean over queries: 0 looks at one token, log K at all alike."""
        return self._mean(self._entropy)

    def distance(self) -> list[float]:
        """How many places away a head looks, in the mean; for self-attention, whose query t stands at key t."""
        return self._mean(self._distance)

    def sink(self) -> list[float]:
        """The share of the first key, where heads with nothing to do often look (Xiao et al. 2023), in the mean."""
        return self._mean(self._first)

    def offsets(self) -> Tensor:
        """Float[H 2·reach+1]: the mean weight of the key so many places after the query, from -reach to reach, over the
        queries that have such a key."""
        return self._offsets / self._counts.clamp(min=1)

    def overview(self) -> tuple[Tensor, Tensor]:
        """The largest and the mean weight of each cell of a grid of at most CELLS × CELLS, whose cells are `tall` × `wide`
        but for the last: Float[H h w] each."""
        most = _pieces(self._largest.mT, self.tall).amax(-1).mT
        sums = _pieces(self._sums.mT, self.tall).sum(-1).mT
        tall, wide = (
            _pieces(torch.ones(count, device=sums.device), length).sum(-1)
            for count, length in ((self.rows, self.tall), (self.columns, self.wide))
        )
        return most, sums / (tall[:, None] * wide)

    def strongest(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of each query the KEPT keys it looks at most, Int[H Q 8] (-1: weighs less than LEAST), their weights, and [H Q]
        what all other keys have."""
        return self._keys, self._values, self._rest


def _pieces(x: Tensor, length: int) -> Tensor:
    """Float[… n length]: the last dimension in pieces of equal length, the last one filled with zeros."""
    return F.pad(x, (0, -x.shape[-1] % length)).unflatten(-1, (-1, length))
