"""Frame: what all layers of one pass share, made once and passed as one object."""

from __future__ import annotations

from collections import UserList
from collections.abc import Iterable
from dataclasses import dataclass, field

from torch import Tensor, nn

from regard.layers.masks import Lowered, Mask, lower, lower_cross
from regard.layout import Layout


@dataclass(frozen=True, eq=False)
class Frame:
    """layout: of the tokens passed. masks: each mask of the stack, lowered. across: the memory's mask.

    turn: cosines and sines Float[B|1 1 T d] by which queries and keys are turned, or None. bias: Float[B|1 H Q K] added to
    the scores of self-attention, or None. routed: the router's logits Float[B T E] of each layer of experts, as they come.
    """

    layout: Layout
    masks: dict[Mask, Lowered] = field(default_factory=dict)
    across: Lowered = Lowered()
    turn: tuple[Tensor, Tensor] | None = None
    bias: Tensor | None = None
    routed: UserList[Tensor] = field(default_factory=UserList)  # no list: FSDP2 gives each block copies of those

    @classmethod
    def of(
        cls,
        masks: Iterable[Mask],
        layout: Layout,
        keys: Layout,
        memory: Layout | None = None,
        position: nn.Module | None = None,
        across: Lowered | None = None,
    ) -> Frame:
        """The frame of a pass over tokens `layout` that see `keys` (cached tokens and these) and a memory, whose mask may
        be there already (`across`). position: what acts inside attention (`Rotary`, `Buckets`), built."""
        if across is None:
            across = Lowered() if memory is None else lower_cross(layout, memory)
        turn, bias = (None, None) if position is None else position(layout, keys)
        return cls(layout, {mask: lower(mask, layout, keys) for mask in masks}, across, turn, bias)
