"""One block: attention, cross-attention in a decoder, feed-forward, each with a residual and a norm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Protocol

from torch import Tensor, nn

from regard.layers.feedforward import FeedForward
from regard.layers.frame import Frame
from regard.layers.kernels import Dropout
from regard.layers.masks import Causal, Mask
from regard.layers.norms import LayerNorm, Norm
from regard.layers.part import part
from regard.layers.state import Cache, Memory


class Attending(Protocol):
    """A description of attention."""

    @property
    def mask(self) -> Mask: ...

    def build(self, d_model: int) -> nn.Module: ...


@part
class Block:
    """Sub-layers of a Transformer's layer. placement: "post" as published, norm(x + f(x)), or "pre", x + f(norm(x))
    (Xiong et al. 2020). dropout: on what each sub-layer gives, before it is added."""

    attention: Attending
    feedforward: FeedForward
    cross: Attending | None = None
    norm: Norm = LayerNorm()
    placement: Literal["post", "pre"] = "post"
    dropout: float = 0.0

    def build(self, d_model: int) -> TransformerBlock:
        return TransformerBlock(self, d_model)


def decoding(block: Block, num_heads: int | None = None, d_ff: int | None = None) -> Block:
    """A decoder's block beside an encoder's (Vaswani et al. 2017, section 3.1): no token sees what comes after it, and
    attention of the same kind reads the memory. num_heads, d_ff: None for as in the encoder."""
    attention: Any = block.attention
    inner: Any = block.feedforward
    heads = replace(attention, num_heads=num_heads or attention.num_heads)
    inner = replace(inner, d_ff=d_ff or inner.d_ff)
    return replace(block, attention=replace(heads, mask=Causal()), feedforward=inner, cross=replace(heads, cross=True))


class TransformerBlock(nn.Module):
    """The module of Block."""

    def __init__(self, its: Block, d_model: int) -> None:
        super().__init__()
        if its.placement not in ("post", "pre"):
            raise ValueError(f"placement must be 'post' or 'pre', not {its.placement!r}")
        self.post = its.placement == "post"
        self.attention, self.attention_norm = its.attention.build(d_model), its.norm.build(d_model)
        self.cross: nn.Module | None = None
        if its.cross is not None:
            self.cross, self.cross_norm = its.cross.build(d_model), its.norm.build(d_model)
        self.feedforward, self.feedforward_norm = its.feedforward.build(d_model), its.norm.build(d_model)
        self.dropout = Dropout(its.dropout)

    def forward(self, x: Tensor, frame: Frame, cache: Cache | None = None, memory: Memory | None = None) -> Tensor:
        """Float[B T D] -> Float[B T D]."""
        if self.post:
            x = self.attention_norm(x + self.dropout(self.attention(x, frame, cache)))
            if self.cross is not None:
                x = self.cross_norm(x + self.dropout(self.cross(x, frame, cache, memory)))
            return self.feedforward_norm(x + self.dropout(self.feedforward(x, frame)))
        x = x + self.dropout(self.attention(self.attention_norm(x), frame, cache))
        if self.cross is not None:
            x = x + self.dropout(self.cross(self.cross_norm(x), frame, cache, memory))
        return x + self.dropout(self.feedforward(self.feedforward_norm(x), frame))
