"""Frame: what all layers of one pass share, made once and passed as one object."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from regard.layers.masks import Lowered, Mask, lower, lower_cross
from regard.layout import Layout


@dataclass(frozen=True, eq=False)
class Frame:
    """layout: of the tokens passed. masks: each mask of the stack, lowered. across: the memory's mask."""

    layout: Layout
    masks: dict[Mask, Lowered] = field(default_factory=dict)
    across: Lowered = Lowered()

    @classmethod
    def of(cls, masks: Iterable[Mask], layout: Layout, keys: Layout, memory: Layout | None = None) -> Frame:
        """The frame of a pass over tokens `layout` that see `keys` (cached tokens and these) and a memory."""
        across = Lowered() if memory is None else lower_cross(layout, memory)
        return cls(layout, {mask: lower(mask, layout, keys) for mask in masks}, across)
