"""Normalisation of one token's vector."""

from __future__ import annotations

from typing import Protocol

from torch import nn

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
