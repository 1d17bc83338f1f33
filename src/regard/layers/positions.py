"""What tells a model where a token stands."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import torch
from torch import Tensor, nn

from regard.layers.part import part
from regard.layout import Layout


class Positions(Protocol):
    """A description of positions. `limit`: how many positions there are, None if there is no end."""

    @property
    def limit(self) -> int | None: ...

    def build(self, d_model: int) -> nn.Module: ...


class _Nothing(nn.Module):
    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Float[B T D], unchanged."""
        return x


@part
class NoPositions:
    """None at all: attention then sees a set."""

    limit = None

    def build(self, d_model: int) -> nn.Module:
        return _Nothing()


@lru_cache(maxsize=8)
def sinusoids(length: int, d_model: int, interleaved: bool = False) -> Tensor:
    """Float[length d_model]: sin(p / 10000^(2i/d)) and cos of the same (Vaswani et al. 2017, section 3.5).

    The paper alternates sine and cosine; by default the sines are the first half and the cosines the second, as in
    Marian's and Pegasus's folders. That is a fixed permutation of the vector, which a trained model cannot tell.
    """
    rate = torch.pow(10000.0, -torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate
    pair = torch.stack([angle.sin(), angle.cos()], -1 if interleaved else 1)
    return pair.flatten(1)[:, :d_model].float()


@part
class Sinusoidal:
    """Adds sines and cosines of the position; see `sinusoids`."""

    interleaved: bool = False

    limit = None

    def build(self, d_model: int) -> nn.Module:
        return _Sinusoidal(self, d_model)


class _Sinusoidal(nn.Module):
    def __init__(self, its: Sinusoidal, d_model: int) -> None:
        super().__init__()
        self.d_model, self.interleaved = d_model, its.interleaved

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Float[B T D] plus the table's rows at the layout's positions."""
        room = 1 << max(9, (layout.longest - 1).bit_length())
        table = sinusoids(room, self.d_model, self.interleaved)
        if x.device.type != "cpu":
            table = table.to(x.device)
        rows = table[layout.start : layout.start + layout.length] if layout.whole else table[layout.position]
        return x + rows.to(x.dtype)


@part
class Learned:
    """Adds a learned vector for each of `count` positions (Gehring et al. 2017)."""

    count: int

    @property
    def limit(self) -> int:
        return self.count

    def build(self, d_model: int) -> nn.Module:
        return _Learned(self, d_model)


class _Learned(nn.Module):
    def __init__(self, its: Learned, d_model: int) -> None:
        super().__init__()
        self.table = nn.Embedding(its.count, d_model)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Float[B T D] plus the table's rows. ValueError if the layout goes past the table's end."""
        if layout.longest > self.table.num_embeddings:
            raise ValueError(f"{layout.longest} tokens, but this model has {self.table.num_embeddings} positions")
        return x + self.table(layout.position)
