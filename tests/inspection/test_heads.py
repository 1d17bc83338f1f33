"""Numbers of heads against their definitions, on matrices whose answers are known."""

from __future__ import annotations

import math

import pytest
import torch

from regard.inspection import heads

EVEN, SELF = torch.full((6, 6), 1 / 6), torch.eye(6)
BOTH = torch.stack([EVEN, SELF])


def test_entropy_is_between_one_token_and_all() -> None:
    assert heads.entropy(BOTH) == pytest.approx([math.log(6), 0.0], abs=1e-6)


def test_distance_is_the_mean_number_of_places() -> None:
    shifted = torch.eye(6).roll(1, 1)
    shifted[5] = SELF[5]
    far = sum(abs(q - k) for q in range(6) for k in range(6)) / 36
    assert heads.distance(torch.stack([EVEN, SELF, shifted])) == pytest.approx([far, 0.0, 5 / 6])


def test_the_sink_is_the_first_key() -> None:
    first = torch.zeros(6, 6)
    first[:, 0] = 1.0
    assert heads.sink(torch.stack([EVEN, first])) == pytest.approx([1 / 6, 1.0])


def test_queries_that_see_nothing_do_not_count() -> None:
    half = EVEN.clone()
    half[3:] = 0.0
    assert heads.entropy(half[None]) == pytest.approx([math.log(6)])
    assert heads.sink(half[None]) == pytest.approx([1 / 6])
    assert heads.entropy(torch.zeros(1, 6, 6)) == [0.0]


def test_offsets_are_means_along_diagonals() -> None:
    weights = torch.rand(2, 7, 9)
    found = heads.offsets(weights, 4)
    for offset in range(-4, 5):
        diagonal = torch.stack([torch.diagonal(one, offset).mean() for one in weights])
        torch.testing.assert_close(found[:, offset + 4], diagonal)
    assert (heads.offsets(torch.rand(1, 2, 2), 5)[:, 7:] == 0).all()


def test_overviews_keep_the_largest_and_the_mean() -> None:
    weights = torch.zeros(1, 256, 128)
    weights[0, 100, 99] = 0.9
    most, mean = heads.overview(weights)
    assert most.shape == mean.shape == (1, 64, 64)
    assert most.max() == most[0, 25, 49] == pytest.approx(0.9)
    assert mean.sum() * 8 == pytest.approx(0.9)
    small = torch.rand(3, 5, 7)
    assert torch.equal(heads.overview(small)[0], small)


def test_the_strongest_keys_and_the_rest() -> None:
    weights = torch.tensor([[[0.5, 0.01, 0.3, 0.19], [0.25, 0.25, 0.25, 0.25]]])
    key, value, rest = heads.strongest(weights)
    assert key[0, 0].tolist() == [0, 2, 3, -1, -1, -1, -1, -1]
    assert value[0, 0].tolist() == pytest.approx([0.5, 0.3, 0.19, 0, 0, 0, 0, 0])
    assert rest[0].tolist() == pytest.approx([0.01, 0.0], abs=1e-6)
    wide = torch.full((1, 1, 20), 0.05)
    assert heads.strongest(wide)[2].item() == pytest.approx(0.6)
