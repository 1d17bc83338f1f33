"""The quality estimate as translations carry it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from regard.decoding.quality import FEATURES, VERSION, checked, estimate, features, interpolated
from regard.errors import UserError
from regard.translator import Translation


def formula(**more: Any) -> dict[str, Any]:
    count = len(FEATURES)
    plain = {"weights": [1.0] + [0.0] * (count - 1), "means": [0.0] * count, "scales": [1.0] * count}
    return (
        {"version": VERSION, "features": list(FEATURES), "length": 0.0, "knots": [[-2.0, 10.0], [0.0, 90.0]]} | plain | more
    )


def test_features_of_a_translation() -> None:
    one = Translation("a b c d", "x", 0.0, 0.0, token_log_probs=[-1.0, -3.0], ids=[1, 2, 3], explained=0.5, uncovered=["a"])
    one.unknown, one.flags = 1, ["copied", "uncovered"]
    assert features(one, 7, 0.25) == [-2.0, -3.0, 0.5, 0.25, math.log(0.5), math.log(2) + 0.25, 1 / 7, 1.0]
    empty = features(Translation("", "", 0.0, 0.0), 0)
    assert empty == [0.0] * len(FEATURES)
    assert len(features(Translation("你好", "x", 0.0, 0.0, uncovered=["你"]), 2)) == len(FEATURES)


def test_the_line_through_knots() -> None:
    knots = [(-2.0, 10.0), (0.0, 90.0)]
    assert [interpolated(knots, at) for at in (-5.0, -2.0, -1.0, 0.0, 3.0)] == [10.0, 10.0, 50.0, 90.0, 90.0]
    assert interpolated([(1.0, 7.0)], 0.0) == interpolated([(1.0, 7.0)], 2.0) == 7.0


def test_an_estimate() -> None:
    values = [-1.0] + [5.0] * (len(FEATURES) - 1)
    assert estimate(formula(), values) == 50.0
    assert estimate(formula(means=[-1.0] * len(FEATURES)), values) == 90.0


def test_a_formula_that_is_none_is_refused() -> None:
    assert checked(formula()) == formula()
    for bad in (
        None,
        [],
        formula(version=2),
        formula(features=["mean"]),
        formula(knots=[]),
        formula(length=None),
        {"version": 1},
    ):
        with pytest.raises(UserError, match="run regard evaluate --calibrate again"):
            checked(bad)
    with pytest.raises(UserError, match="quality is broken"):
        checked(formula(knots=[[0.0, 1.0], [0.0, 2.0]]))
