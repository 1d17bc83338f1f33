"""Token ids to vectors."""

from __future__ import annotations

from torch import Tensor, nn

from regard.layers.kernels import Dropout
from regard.layers.part import part
from regard.layers.positions import NoPositions, Positions
from regard.layout import Layout


@part
class Tokens:
    """A vector for each of `vocab_size` tokens, × sqrt(d_model) if `scaled` (Vaswani et al. 2017, section 3.4), plus
    the position, with dropout on the sum."""

    vocab_size: int
    position: Positions = NoPositions()
    scaled: bool = False
    dropout: float = 0.0

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
        self.dropout = Dropout(its.dropout)

    def forward(self, ids: Tensor, layout: Layout) -> Tensor:
        """Int[B T] -> Float[B T D]."""
        x = self.tokens(ids)
        if self.scale != 1.0:
            x = x * self.scale
        return self.dropout(self.position(x, layout))
