"""Token ids to vectors."""

from __future__ import annotations

from torch import Tensor, nn

from regard.layers.kernels import Dropout
from regard.layers.norms import Norm
from regard.layers.part import part
from regard.layers.positions import NoPositions, Positions
from regard.layout import Layout, Side


@part
class Tokens:
    """A vector for each of `vocab_size` tokens, × sqrt(d_model) if `scaled` (Vaswani et al. 2017, section 3.4), plus one
    for the segment it belongs to if there are `segments` (Devlin et al. 2019), plus the position; then `norm`, then
    dropout."""

    vocab_size: int
    position: Positions = NoPositions()
    scaled: bool = False
    dropout: float = 0.0
    segments: int = 0
    norm: Norm | None = None

    def build(self, d_model: int) -> Embeddings:
        return Embeddings(self, d_model)


class Embeddings(nn.Module):
    """The module of Tokens."""

    def __init__(self, its: Tokens, d_model: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(its.vocab_size, d_model)
        self.scale = d_model**0.5 if its.scaled else 1.0
        self.position = its.position.build(d_model)
        self.limit = its.position.limit
        self.segments = nn.Embedding(its.segments, d_model) if its.segments else None
        self.norm = None if its.norm is None else its.norm.build(d_model)
        self.dropout = Dropout(its.dropout)

    def place(self, ids: Tensor, pad: int | None, side: Side = "both") -> Layout:
        """Where tokens stand, read off their ids."""
        return Layout.of_ids(ids, pad, side)

    def forward(self, ids: Tensor, layout: Layout, segments: Tensor | None = None) -> Tensor:
        """Int[B T] -> Float[B T D]. segments: Int[B T], None for all in the first."""
        x = self.tokens(ids)
        if self.scale != 1.0:
            x = x * self.scale
        if self.segments is not None:
            x = x + (self.segments.weight[0] if segments is None else self.segments(segments))
        x = self.position(x, layout)
        return self.dropout(x if self.norm is None else self.norm(x))
