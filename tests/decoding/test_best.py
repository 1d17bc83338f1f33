"""The best of each row: the same as a stable sort, ties and infinities included, in blocks and without."""

from __future__ import annotations

import math

import pytest
import torch

from regard.decoding import best
from regard.decoding.best import BLOCK, best_of, extensions, first_of, largest


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch) -> None:
    monkeypatch.setattr(best, "MANY", 1)


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


@pytest.mark.parametrize("width", [5, 2048, 2079, 4000])
def test_the_first_of_the_largest(width) -> None:
    torch.manual_seed(width)
    for kinds in (2, 50, 10**6):
        x = torch.randint(0, kinds, (7, width)).float()
        x[0] = -math.inf
        want = (x == x.amax(1, keepdim=True)).int().argmax(1)
        assert torch.equal(first_of(x), want)


def test_what_is_left_over_after_the_last_block_counts() -> None:
    count = BLOCK * 100
    x = torch.zeros(3, count + 3)
    x[0, -1], x[1, -3], x[1, 70] = 5.0, 4.0, 6.0
    value, place = largest(x, 2)
    assert place[0, 0] == count + 2
    assert place[1].tolist() == [70, count]
    assert value[1].tolist() == [6.0, 4.0]
    assert first_of(x).tolist() == [count + 2, 70, 0]


@pytest.mark.parametrize("width", [2048, 2049, 4000, 4095])
@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("kinds", [3, 10**6])
def test_extensions_are_the_best_of_all_beams(width, beams, kinds) -> None:
    torch.manual_seed(width + beams)
    logits, total = torch.randint(0, kinds, (4 * beams, width)).double() / kinds * 9, -torch.rand(4, beams).double()
    total[1, 1:] = -math.inf  # beams that ended
    logits[0, -1] = 20.0
    found = extensions(logits, total, 6)
    own = logits.log_softmax(1)
    want, where = (own + total.view(-1, 1)).view(4, -1).sort(dim=1, descending=True, stable=True)
    if kinds == 3:  # equals: the first counts, which is for the slow way to find
        assert found is None
        return
    value, place, log = found
    assert torch.equal(place, where[:, :6])
    torch.testing.assert_close(value, want[:, :6], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(log, own.view(4, -1).gather(1, place), rtol=1e-12, atol=1e-12)
    assert extensions(logits[:, :900].contiguous(), total, 6) is None


def test_extensions_of_broken_logits_show_it() -> None:
    logits = torch.randn(2, 2048)
    logits[1, 5] = math.nan
    found = extensions(logits, torch.zeros(2, 1), 3)
    assert found is not None
    assert found[0][1].isnan().any()
