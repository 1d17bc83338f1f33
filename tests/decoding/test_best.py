"""The best of each row: the same as a stable sort, ties and infinities included, in blocks and without."""

from __future__ import annotations

import math

import pytest
import torch

from regard.decoding.best import best_of, largest


@pytest.mark.parametrize("width", [5, 12, 2048, 2049, 4000, 4095])
@pytest.mark.parametrize("count", [1, 4, 7])
@pytest.mark.parametrize("kinds", [3, 1000])
def test_best_of_is_a_stable_sort(width, count, kinds) -> None:
    torch.manual_seed(width + count)
    x = torch.randint(0, kinds, (6, width)).float() / 7
    x[0] = -math.inf
    x[1, 2:] = -math.inf
    value, place = best_of(x, count)
    want, where = x.sort(dim=1, descending=True, stable=True)
    assert torch.equal(value, want[:, :count])
    alive = value > -math.inf
    assert torch.equal(place[alive], where[:, :count][alive])


def test_what_is_left_over_after_the_last_block_counts() -> None:
    x = torch.zeros(2, 64 * 40 + 3)
    x[0, -1], x[1, -3], x[1, 70] = 5.0, 4.0, 6.0
    value, place = largest(x, 2)
    assert place[0, 0] == 64 * 40 + 2
    assert place[1].tolist() == [70, 64 * 40]
    assert value[1].tolist() == [6.0, 4.0]
