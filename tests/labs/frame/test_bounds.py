"""Thresholds from theory."""

from __future__ import annotations

from functools import reduce

import pytest
import torch

from regard.labs.frame.bounds import fit, log_fit, noise, noise_between, rounding, surely


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_in_another_order_stay_within_rounding(dtype):
    columns = torch.randn(1024, 200, dtype=dtype).unbind()
    given, turned = reduce(torch.add, columns), reduce(torch.add, columns[::-1])
    apart = float((given - turned).abs().max())
    assert 0 < apart <= rounding(dtype, 1024, float(given.abs().max()))


def test_slopes():
    assert fit([1, 2, 3, 4], [2, 4, 6, 8]).slope == pytest.approx(2)
    assert fit([1, 2, 3, 4], [2, 4, 6, 8]).error == pytest.approx(0, abs=1e-12)
    assert fit([0, 1, 2, 3], [0, 1, 0, 1]).error > 0.1
    assert log_fit([1, 2, 4, 8], [3, 12, 48, 192]).slope == pytest.approx(2)


def test_four_standard_errors():
    assert noise(400) == pytest.approx(4 * 0.5 / 20)
    assert noise(100, 0.1) == pytest.approx(4 * 0.3 / 10)
    assert noise_between(200) == pytest.approx(2**0.5 * noise(200))


def test_a_mean_is_surely_above_what_its_interval_is():
    assert surely([1.0, 1.0, 1.0]) == 1.0
    assert surely([0.0, 1.0, 2.0]) == pytest.approx(1 - 4.303 / 3**0.5)
    assert surely([0.9, 1.1]) < 0 < surely([0.9, 1.1, 1.0, 1.0, 1.05])
