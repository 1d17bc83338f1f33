"""What a block does to each token by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.frame import Frame
from regard.layers.kernels import Dropout, Linear, gelu_tanh
from regard.layers.part import part

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,
    "tanh": F.tanh,
}


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """The function of that name; ValueError with the known names otherwise."""
    if name not in ACTIVATIONS:
        raise ValueError(f"unknown activation {name!r}; known: {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


class FeedForward(Protocol):
    """A description of a feed-forward sub-layer."""

    def build(self, d_model: int) -> nn.Module: ...


@part
class Dense:
    """W2 f(W1 x + b1) + b2 (Vaswani et al. 2017, section 3.3)."""

    gated = False
    d_ff: int
    activation: str = "relu"
    bias: bool = True
    dropout: float = 0.0

    def build(self, d_model: int) -> DenseFeedForward:
        return DenseFeedForward(self, d_model)


class DenseFeedForward(nn.Module):
    """The module of Dense."""

    def __init__(self, its: Dense, d_model: int) -> None:
        super().__init__()
        self.activation = activation(its.activation)
        self.expand = Linear(d_model, its.d_ff, its.bias)
        self.contract = Linear(its.d_ff, d_model, its.bias)
        self.dropout = Dropout(its.dropout)

    def forward(self, x: Tensor, frame: Frame | None = None) -> Tensor:
        """Float[B T D] -> Float[B T D]."""
        x = self.expand(x)
        inner = self.dropout.relu(x) if self.activation is F.relu else self.dropout(self.activation(x))
        return self.contract(inner)


@part
class Gated:
    """W2 (f(W1 x) * W3 x) (Shazeer 2020, "GLU variants improve Transformer"); W1 and W3 are one product."""

    gated = True
    d_ff: int
    activation: str = "silu"
    bias: bool = False
    dropout: float = 0.0

    def build(self, d_model: int) -> GatedFeedForward:
        return GatedFeedForward(self, d_model)


class GatedFeedForward(nn.Module):
    """The module of Gated."""

    def __init__(self, its: Gated, d_model: int) -> None:
        super().__init__()
        self.activation = activation(its.activation)
        self.expand = Linear(d_model, 2 * its.d_ff, its.bias)
        self.fused = {"expand.weight": (its.d_ff, its.d_ff)}
        self.contract = Linear(its.d_ff, d_model, its.bias)
        self.dropout = Dropout(its.dropout)

    def forward(self, x: Tensor, frame: Frame | None = None) -> Tensor:
        """Float[B T D] -> Float[B T D]."""
        gate, value = self.expand(x).chunk(2, -1)
        return self.contract(self.dropout(self.activation(gate) * value))
