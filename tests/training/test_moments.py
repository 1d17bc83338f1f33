"""What a backward holds from one moment to the next, against sums made by hand."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from regard.training.moments import Held, Moment, held_by

ROWS, WIDTH = 100, 8
KEPT = 4 * ROWS * WIDTH
"""Bytes of an activation."""


class Stack(nn.Module):
    """Linear layers, each a block, with a squashing after each, which keeps its answer alone."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = torch.sigmoid(block(x))
        return x


def of(model: Stack, half: bool = False) -> Held:
    x, slope = torch.zeros(ROWS, WIDTH), torch.ones(ROWS, WIDTH)

    def work() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            model(x).backward(slope.to(torch.bfloat16 if half else torch.float32))

    return held_by(model, list(model.blocks), work)


def test_activations_go_as_gradients_come() -> None:
    layers, weight = 5, 4 * WIDTH * WIDTH
    model = Stack(layers)
    found = of(model)
    assert found.copies == 0
    assert all(p.grad is None for p in model.parameters())
    # what each layer keeps, the slopes behind and before the last layer, and its weight's, which is not complete yet
    assert found.activations == (layers + 2) * KEPT + weight
    left = {}
    for one in found.moments:
        left[one.closed // weight] = max(one.activations, left.get(one.closed // weight, 0))
        assert one.closed % weight == one.open == 0  # a layer has one weight: with its gradient the backward has left it
    kept = [left[number] for number in range(layers)]
    assert all(before - after == KEPT for before, after in pairwise(kept[1:]))


def test_gradients_outside_of_blocks_stay_open() -> None:
    model = Stack(3)
    x = torch.zeros(ROWS, WIDTH)
    found = held_by(model, list(model.blocks)[:2], lambda: model(x).sum().backward())
    weight = 4 * WIDTH * WIDTH
    assert max(one.open for one in found.moments) == weight
    assert max(one.closed for one in found.moments) <= 2 * weight


def test_copies_of_weights_are_counted_for_themselves() -> None:
    found = of(Stack(4), half=True)
    assert found.copies == 4 * 2 * WIDTH * WIDTH
    assert found.activations < of(Stack(4)).activations


def test_no_moment_is_below_another() -> None:
    moments = of(Stack(6)).moments
    assert len(set(moments)) == len(moments)
    for one in moments:
        assert not any(other != one and all(a <= b for a, b in zip(one, other, strict=True)) for other in moments)
    assert Held((), 0).activations == 0
    assert Moment(1, 2, 3).closed == 3
