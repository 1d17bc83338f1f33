"""Attention rollout (Abnar and Zuidema 2020): a heuristic for how much of an input token is left in a later one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def rollout(layers: Sequence[Tensor]) -> Tensor:
    """The product over layers, first to last, of 0.5 × (mean of the heads + identity), rows made to sum to one.

    layers: Float[H N N] of one half's self-attention each. Float[N N]: row t says what token t is made of. Values, norms and
    feed-forward layers are left out, which is why this is a heuristic.
    """
    size = layers[0].shape[-1]
    whole = torch.eye(size, dtype=layers[0].dtype, device=layers[0].device)
    for weights in layers:
        mixed = 0.5 * (weights.mean(0) + torch.eye(size, dtype=weights.dtype, device=weights.device))
        whole = mixed / mixed.sum(-1, keepdim=True) @ whole
    return whole
