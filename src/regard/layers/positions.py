"""What tells a model where a token stands."""

from __future__ import annotations

import math
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
def sinusoids(length: int, d_model: int, interleaved: bool = False, first: int = 0, closed: bool = False) -> Tensor:
    """Float[length d_model]: sin(p / 10000^(2i/d)) and cos of the same (Vaswani et al. 2017, section 3.5) for positions from
    `first` on.

    The paper alternates sine and cosine; by default the sines are the first half and the cosines the second, as in
    Marian's and Pegasus's folders. That is a fixed permutation of the vector, which a trained model cannot tell. closed:
    10000^(2i/(d-2)), so that the slowest pair turns by exactly 1/10000, as in the authors' code and OpenNMT's.
    """
    with torch.inference_mode(False):  # it is kept, also for those who train
        steps = torch.arange(0, d_model, 2, dtype=torch.float64)
        rate = torch.pow(10000.0, -steps / (max(d_model - 2, 1) if closed else d_model))
        angle = torch.arange(first, first + length, dtype=torch.float64)[:, None] * rate
        pair = torch.stack([angle.sin(), angle.cos()], -1 if interleaved else 1)
        return pair.flatten(1)[:, :d_model].float()


@part
class Sinusoidal:
    """Adds sines and cosines of the position; see `sinusoids`."""

    interleaved: bool = False
    first: int = 0
    closed: bool = False

    limit = None

    def build(self, d_model: int) -> nn.Module:
        return _Sinusoidal(self, d_model)


class _Sinusoidal(nn.Module):
    def __init__(self, its: Sinusoidal, d_model: int) -> None:
        super().__init__()
        self.d_model, self.form = d_model, (its.interleaved, its.first, its.closed)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Float[B T D] plus the table's rows at the layout's positions."""
        room = 1 << max(9, (layout.longest - 1).bit_length())
        table = sinusoids(room, self.d_model, *self.form)
        if x.device.type != "cpu":
            table = table.to(x.device)
        rows = table[layout.start : layout.start + layout.length] if layout.whole else table[layout.position]
        return x + rows.to(x.dtype)


@part
class Learned:
    """Adds a learned vector for each of `count` positions (Gehring et al. 2017). offset: rows of the table before that of
    the first position, as in the folders of families that number positions from 2."""

    count: int
    offset: int = 0

    @property
    def limit(self) -> int:
        return self.count

    def build(self, d_model: int) -> nn.Module:
        return _Learned(self, d_model)


class _Learned(nn.Module):
    def __init__(self, its: Learned, d_model: int) -> None:
        super().__init__()
        self.table = nn.Embedding(its.offset + its.count, d_model)
        self.count, self.offset = its.count, its.offset

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """Float[B T D] plus the table's rows. ValueError if the layout goes past the table's end."""
        if layout.longest > self.count:
            raise ValueError(f"{layout.longest} tokens, but this model has {self.count} positions")
        at = layout.position
        if not layout.whole:  # padding may reach past the table's end; it takes the row before the first, if there is one
            at = at.masked_fill(~layout.real, -1 if self.offset else 0)
        return x + self.table(at + self.offset if self.offset else at)


class Scaling(Protocol):
    """How a model trained on short texts turns over long ones: other rates for each pair of numbers."""

    def rates(self, rates: Tensor) -> Tensor:
        """Float[d/2] -> Float[d/2], in radians a position."""
        ...

    @property
    def gain(self) -> float:
        """Factor on cosines and sines."""
        ...


def turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Queries or keys Float[B H T d], each pair (i, i + w/2) of their first w numbers turned by its angle; tables
    Float[B|1 1 T w]."""
    width = cosine.shape[-1]
    if width < x.shape[-1]:
        return torch.cat([turned(x[..., :width], cosine, sine), x[..., width:]], -1)
    left, right = x.chunk(2, -1)
    return x * cosine.to(x.dtype) + torch.cat([-right, left], -1) * sine.to(x.dtype)


@part
class Rotary:
    """Turns queries and keys by an angle that grows with the position, so that their product sees distances alone (Su et
    al. 2021, with the two halves of a head paired as in LLaMA's folders). width: how many numbers of a head are turned,
    None for all. trained: how many positions the weights were or will be trained on, if that is known; no limit, for
    angles have no end."""

    base: float = 10000.0
    width: int | None = None
    scaling: Scaling | None = None
    trained: int | None = None

    limit = None

    def build(self, num_heads: int, head_dim: int) -> nn.Module:
        return _Rotary(self, head_dim)


class _Rotary(nn.Module):
    biases = False

    def __init__(self, its: Rotary, head_dim: int) -> None:
        super().__init__()
        width = its.width or head_dim
        if width % 2 or width > head_dim:
            raise ValueError(f"rotary positions turn pairs of a head's {head_dim} numbers: {width} cannot be paired")
        self.base, self.width, self.scaling = its.base, width, its.scaling

    def forward(self, q: Layout, k: Layout) -> tuple[tuple[Tensor, Tensor], None]:
        """Cosines and sines Float[B|1 1 T w] of the queries' positions (keys are turned when they are new)."""
        pairs = torch.arange(0, self.width, 2, dtype=torch.float32, device=q.position.device)
        rates, gain = 1.0 / self.base ** (pairs / self.width), 1.0
        if self.scaling is not None:
            rates, gain = self.scaling.rates(rates), self.scaling.gain
        angle = q.position[:, None, :, None].float() * torch.cat([rates, rates])
        return (angle.cos() * gain, angle.sin() * gain), None


@part
class Buckets:
    """Adds to each head's scores a learned number for the distance from query to key (Raffel et al. 2020, T5): half of the
    `count` buckets are single distances, the others grow logarithmically up to `farthest`. both_ways: keys after the query
    have half of the buckets to themselves."""

    count: int = 32
    farthest: int = 128
    both_ways: bool = True

    limit = None

    def build(self, num_heads: int, head_dim: int) -> nn.Module:
        return _Buckets(self, num_heads)


class _Buckets(nn.Module):
    biases = True

    def __init__(self, its: Buckets, num_heads: int) -> None:
        super().__init__()
        self.count, self.farthest, self.both_ways = its.count, its.farthest, its.both_ways
        self.table = nn.Embedding(its.count, num_heads)

    def bucket(self, distance: Tensor) -> Tensor:
        """Key's position less query's, Int[...] -> number of its bucket."""
        count, offset = self.count, torch.zeros_like(distance)
        if self.both_ways:
            count //= 2
            offset = (distance > 0).long() * count
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        exact = count // 2
        far = (distance.clamp(min=1).float() / exact).log() / math.log(self.farthest / exact) * (count - exact)
        return offset + torch.where(distance < exact, distance, (exact + far.long()).clamp(max=count - 1))

    def forward(self, q: Layout, k: Layout) -> tuple[None, Tensor]:
        """Float[B|1 H Q K], added to scores."""
        bias = self.table(self.bucket(k.position[:, None, :] - q.position[:, :, None]))
        return None, bias.permute(0, 3, 1, 2)
