"""Attention within a window, and a few global tokens that see everything through projections of their own."""

from __future__ import annotations

from torch import Tensor, nn

from regard.layers.attention import Attention, MultiHeadAttention, ScaledDot
from regard.layers.blocks import Spots
from regard.layers.frame import Frame
from regard.layers.kernels import Linear
from regard.layers.masks import Everything, Marked, Mask, Window, lower
from regard.layers.part import part
from regard.layers.state import Cache, Memory


@part
class WindowedAttention:
    """A token sees those at most window / 2 places away and the global tokens, which see all and are seen by all (Beltagy et
    al. 2020, Longformer, without dilation).

    Global are the tokens whose Layout.mark is 1; where a layout has no marks, the first `first` tokens of each document.
    What global tokens see, they see through query, key and value projections of their own.
    """

    num_heads: int
    window: int
    first: int = 0
    dropout: float = 0.0

    @property
    def mask(self) -> Mask:
        """What all tokens but the global ones see."""
        return Window(self.window // 2 + 1) | Marked(self.first)

    def build(self, d_model: int) -> GlobalTokenAttention:
        return GlobalTokenAttention(self, d_model)


class _Everywhere(nn.Module):
    """What global tokens see."""

    def __init__(self, its: WindowedAttention, d_model: int) -> None:
        super().__init__()
        self.q, self.kv = Linear(d_model, d_model), Linear(d_model, 2 * d_model)
        self.attend = ScaledDot().build(d_model // its.num_heads, its.dropout)


class GlobalTokenAttention(MultiHeadAttention):
    """The module of WindowedAttention."""

    def __init__(self, its: WindowedAttention, d_model: int) -> None:
        super().__init__(Attention(its.num_heads, mask=its.mask, dropout=its.dropout), d_model)
        self.marked = Marked(its.first)
        self.everywhere = _Everywhere(its, d_model)

    def forward(self, x: Tensor, frame: Frame, cache: Cache | None = None, memory: Memory | None = None) -> Tensor:
        """x: Float[B T D] -> Float[B T D]. ValueError with a cache: what a token sees depends on tokens after it."""
        if cache is not None:
            raise ValueError("global tokens see what comes later: this attention cannot be read token by token")
        q, k, v = (self.heads(part, self.num_heads) for part in self.qkv(x).chunk(3, -1))
        y = self.attend(q, k, v, frame.masks[self.mask])
        unmarked = frame.layout.mark is None and not self.marked.first
        spots = None if unmarked else Spots.of(self.marked.chosen(frame.layout))
        if spots is not None:
            q = self.heads(self.everywhere.q(spots.take(x, 1)), self.num_heads)
            k, v = (self.heads(part, self.num_heads) for part in self.everywhere.kv(x).chunk(2, -1))
            everything = lower(Everything(), spots.layout(frame.layout), frame.layout)
            y = spots.put(y, self.everywhere.attend(q, k, v, everything), 2)
        return self.output(y.transpose(1, 2).flatten(2))
