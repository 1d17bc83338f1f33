"""The logit lens: what each layer would say, were it the last (nostalgebraist 2020)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from regard.layout import Layout


class States:
    """The vectors between the blocks of a half: `calls` has, for each call of the half, what went into its first block and
    what each block gave, Float[B N D] each."""

    def __init__(self) -> None:
        self.calls: list[list[Tensor]] = []

    def rows(self, tokens: int) -> list[Tensor]:
        """Float[tokens D] of the first text, before the first block and after each: of all tokens of one call, or of each
        call's last (see `Tape.answered`)."""
        if len(self.calls) == 1 and self.calls[0][0].shape[1] == tokens:
            return [state[0] for state in self.calls[0]]
        return [torch.cat(layer) for layer in zip(*([state[0, -1:] for state in call] for call in self.calls))]


@contextmanager
def states(half: Any) -> Iterator[States]:
    """The vectors between blocks of all that a half reads within the block; of a half without blocks none."""
    found = States()

    def first(_: Any, given: tuple[Any, ...]) -> None:
        found.calls.append([given[0].detach()])

    def after(_: Any, __: Any, output: Tensor) -> None:
        found.calls[-1].append(output.detach())

    blocks = list(getattr(half, "blocks", ()))
    handles = [block.register_forward_hook(after) for block in blocks]
    handles += [blocks[0].register_forward_pre_hook(first)] if blocks else []
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()


@torch.no_grad()
def spoken(model: Any, half: Any, state: Tensor) -> Tensor:
    """Float[N V]: the logits of states Float[N D] of a half, through its last norm, if it has one, and the model's head. Of
    the last block's states they are the model's own."""
    last = half.last_norm
    hidden = state[None] if last is None else last(state[None])
    return model.head(hidden, Layout.unpadded(len(state), device=state.device)).logits[0]
