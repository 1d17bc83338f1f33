"""Normalisation of one token's vector."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from regard.layers.part import part


class Norm(Protocol):
    """A description of a normalisation."""

    def build(self, d_model: int) -> nn.Module: ...


@part
class LayerNorm:
    """Zero mean and unit variance, then a gain and a shift (Ba et al. 2016)."""

    eps: float = 1e-5

    def build(self, d_model: int) -> nn.Module:
        return nn.LayerNorm(d_model, eps=self.eps)


@part
class RMSNorm:
    """Unit root mean square, then a gain (Zhang & Sennrich 2019). The mean square is taken in single precision at least."""

    eps: float = 1e-6

    def build(self, d_model: int) -> nn.Module:
        return RootMeanSquare(d_model, self.eps)


class RootMeanSquare(nn.Module):
    """The module of RMSNorm."""

    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Float[... D] -> Float[... D]."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return self.weight * (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"
