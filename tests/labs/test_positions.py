"""L3."""

from __future__ import annotations

import torch

from regard.labs.positions import turn


def test_both_ways(judged, value):
    plain, _ = judged("positions", "not_as_written", "wavelength", "slower", "unique", "turned", "even", "fit")
    assert plain.verdict == "holds"
    assert value(plain, "turned") < 1e-6
    assert next(one for one in plain.checks if one.id == "orthogonal").passed
    assert next(one for one in plain.checks if one.id == "added").passed


def test_turning_twice_is_turning_by_the_sum():
    torch.testing.assert_close(turn(3) @ turn(5), turn(8))
