"""How a model tells places: the vectors it adds, the angles it turns by, the numbers it adds to scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.layout import Layout


@dataclass(frozen=True, eq=False)
class Places:
    """kind: the name of the part, in small letters. table: Float[P D] vectors that are added; dots: Float[P P], how alike
    two places are: the cosine of their vectors, or of their angles' difference. None: there is no such thing."""

    kind: str
    table: Tensor | None
    dots: Tensor | None


@torch.no_grad()
def places(half: Any, described: Any, length: int) -> Places:
    """The places of a half (encoder or decoder) for texts of `length` tokens."""
    embed, inside = half.embed, getattr(half, "position", None)
    layout = Layout.unpadded(length, device=next(half.parameters()).device)
    part = getattr(described, "position", None) or getattr(described.embed, "position", None)
    kind = type(part).__name__.lower() if part is not None else "learned" if hasattr(embed, "places") else "none"
    if hasattr(half, "farthest"):  # the distance from query to key is a part of every score
        return Places("relative", None, None)
    if inside is not None:
        turn, _ = inside(layout, layout)
        if turn is None:
            return Places(kind, None, None)
        cosine, sine = (x[0, 0].double() for x in turn)
        dots = cosine @ cosine.T + sine @ sine.T
        return Places(kind, None, dots / dots[0, 0].clamp(min=1e-12))
    table = _table(half, layout)
    if table is None or not bool(table.any()):
        return Places("none" if part is None or kind == "nopositions" else kind, None, None)
    unit = F.normalize(table.double(), dim=-1)
    return Places(kind, table, unit @ unit.T)


def _table(half: Any, layout: Layout) -> Tensor | None:
    """What is added to the vectors of tokens at these places: Float[P D]."""
    embed = half.embed
    if hasattr(embed, "places"):  # patches of an image stand in a grid of their own
        return embed.places(*embed.grid)[0].detach()
    if not hasattr(embed, "position"):
        return None
    weight = embed.tokens.weight
    zeros = torch.zeros(1, layout.length, weight.shape[1], dtype=weight.dtype, device=weight.device)
    return embed.position(zeros, layout)[0]
