"""Numbers of heads against their definitions, on matrices whose answers are known."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.inspection.heads import CELLS, Glance

EVEN, SELF = torch.full((6, 6), 1 / 6), torch.eye(6)
BOTH = torch.stack([EVEN, SELF])


def glance(weights: Tensor, step: int = 1000) -> Glance:
    """Of weights [H Q K], so many rows at a time."""
    made = Glance(*weights.shape)
    for part in weights.split(step, 1):
        made.add(part)
    return made


def test_entropy_is_between_one_token_and_all() -> None:
    assert glance(BOTH).entropy() == pytest.approx([math.log(6), 0.0], abs=1e-6)


def test_distance_is_the_mean_number_of_places() -> None:
    shifted = torch.eye(6).roll(1, 1)
    shifted[5] = SELF[5]
    far = sum(abs(q - k) for q in range(6) for k in range(6)) / 36
    assert glance(torch.stack([EVEN, SELF, shifted])).distance() == pytest.approx([far, 0.0, 5 / 6])


def test_the_sink_is_the_first_key() -> None:
    first = torch.zeros(6, 6)
    first[:, 0] = 1.0
    assert glance(torch.stack([EVEN, first])).sink() == pytest.approx([1 / 6, 1.0])


def test_queries_that_see_nothing_do_not_count() -> None:
    half = EVEN.clone()
    half[3:] = 0.0
    assert glance(half[None]).entropy() == pytest.approx([math.log(6)])
    assert glance(half[None]).sink() == pytest.approx([1 / 6])
    assert glance(torch.zeros(1, 6, 6)).entropy() == [0.0]


def test_offsets_are_means_along_diagonals() -> None:
    weights = torch.rand(2, 7, 9)
    found = glance(weights).offsets()
    assert found.shape == (2, 17)
    for offset in range(-6, 9):
        diagonal = torch.stack([torch.diagonal(one, offset).mean() for one in weights])
        torch.testing.assert_close(found[:, offset + 8], diagonal)
    assert (found[:, :2] == 0).all()
    assert glance(torch.rand(1, 100, 100)).offsets().shape == (1, 65)


def test_overviews_keep_the_largest_and_the_mean() -> None:
    weights = torch.zeros(1, 256, 128)
    weights[0, 100, 99] = 0.9
    most, mean = glance(weights).overview()
    assert most.shape == mean.shape == (1, 64, 64)
    assert most.max() == most[0, 25, 49] == pytest.approx(0.9)
    assert mean.sum() * 8 == pytest.approx(0.9)
    small = torch.rand(3, 5, 7)
    assert torch.equal(glance(small).overview()[0], small)


def test_cells_are_of_one_size_but_the_last() -> None:
    weights = torch.rand(2, 130, 70)
    its = glance(weights)
    most, mean = its.overview()
    assert (its.tall, its.wide) == (3, 2)
    assert most.shape == (2, 44, 35)
    assert max(most.shape) <= CELLS
    for row, column in ((0, 0), (20, 30), (43, 34)):
        cell = weights[:, 3 * row : 3 * row + 3, 2 * column : 2 * column + 2].flatten(1)
        torch.testing.assert_close(most[:, row, column], cell.amax(1))
        torch.testing.assert_close(mean[:, row, column], cell.mean(1))


def test_the_strongest_keys_and_the_rest() -> None:
    weights = torch.tensor([[[0.5, 0.01, 0.3, 0.19], [0.25, 0.25, 0.25, 0.25]]])
    key, value, rest = glance(weights).strongest()
    assert key[0, 0].tolist() == [0, 2, 3, -1, -1, -1, -1, -1]
    assert value[0, 0].tolist() == pytest.approx([0.5, 0.3, 0.19, 0, 0, 0, 0, 0])
    assert rest[0].tolist() == pytest.approx([0.01, 0.0], abs=1e-6)
    wide = torch.full((1, 1, 20), 0.05)
    assert glance(wide).strongest()[2].item() == pytest.approx(0.6)


def test_rows_may_come_a_few_at_a_time() -> None:
    weights = torch.rand(3, 50, 40).softmax(-1)
    whole, parts = glance(weights), glance(weights, 7)
    assert parts.entropy() == pytest.approx(whole.entropy())
    assert parts.distance() == pytest.approx(whole.distance())
    assert parts.sink() == pytest.approx(whole.sink())
    torch.testing.assert_close(parts.offsets(), whole.offsets())
    for one, other in zip((*parts.overview(), *parts.strongest()), (*whole.overview(), *whole.strongest())):
        torch.testing.assert_close(one, other)
