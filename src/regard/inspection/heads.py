"""What a head does, at a glance: numbers and small pictures of its weights [H Q K]."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

CELLS = 64
"""Most rows and columns of an overview."""
KEPT, LEAST = 8, 0.02
"""So many keys of a query are kept of a long text, if they weigh at least so much."""


def entropy(weights: Tensor) -> list[float]:
    """Nats, the mean over queries that see anything: 0 looks at one token, log K at all alike. Float[H Q K] -> H numbers."""
    each = -(weights * weights.clamp(min=1e-12).log()).sum(-1)
    return _mean(each, weights.sum(-1) > 0)


def distance(weights: Tensor) -> list[float]:
    """How many places away a head looks, in the mean; for self-attention, whose query t stands at key t."""
    q, k = weights.shape[1:]
    far = (torch.arange(k, device=weights.device)[None] - torch.arange(q, device=weights.device)[:, None]).abs()
    return _mean((weights * far).sum(-1), weights.sum(-1) > 0)


def sink(weights: Tensor) -> list[float]:
    """The share of the first key, where heads with nothing to do often look (Xiao et al. 2023); the mean over queries."""
    return _mean(weights[:, :, 0], weights.sum(-1) > 0)


def _mean(each: Tensor, real: Tensor) -> list[float]:
    return ((each * real).sum(-1) / real.sum(-1).clamp(min=1)).tolist()


def offsets(weights: Tensor, reach: int = 32) -> Tensor:
    """Float[H 2·reach+1]: the mean weight of the key so many places after the query, from -reach to reach, over the queries
    that have such a key."""
    q, k = weights.shape[1:]
    far = torch.arange(k, device=weights.device)[None] - torch.arange(q, device=weights.device)[:, None]
    near = far.abs() <= reach
    index = (far + reach).clamp(0, 2 * reach)[near]
    sums = weights.new_zeros(weights.shape[0], 2 * reach + 1).index_add_(1, index, weights[:, near])
    counts = torch.bincount(index, minlength=2 * reach + 1)
    return sums / counts.clamp(min=1)


def overview(weights: Tensor) -> tuple[Tensor, Tensor]:
    """The largest and the mean weight of each cell of a grid of at most CELLS × CELLS: Float[H h w] each."""
    size = (min(CELLS, weights.shape[1]), min(CELLS, weights.shape[2]))
    most = F.adaptive_max_pool2d(weights[None].float(), size)[0]
    return most, F.adaptive_avg_pool2d(weights[None].float(), size)[0]


def strongest(weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each query the KEPT keys it looks at most, Int[H Q 8] (-1: weighs less than LEAST), their weights, and [H Q] what
    all other keys have."""
    count = min(KEPT, weights.shape[2])
    value, key = weights.topk(count, -1)
    value, key = F.pad(value, (0, KEPT - count)), F.pad(key, (0, KEPT - count), value=-1)
    small = value < LEAST
    value = value.masked_fill(small, 0.0)
    return key.masked_fill(small, -1).int(), value, (weights.sum(-1) - value.sum(-1)).clamp(min=0)
