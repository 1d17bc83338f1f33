"""Limits are positive numbers."""

from __future__ import annotations

import pytest

from regard.errors import UserError
from regard.serving.limits import Limits


def test_zero_is_a_limit_only_where_it_makes_sense() -> None:
    assert Limits(window=0, grace=0, alternatives=0).window == 0
    for wrong in ({"texts": 0}, {"seconds": 0}, {"waiting": -1}, {"alternatives": -1}):
        with pytest.raises(UserError, match=f"the limit {next(iter(wrong))} must be at least"):
            Limits(**wrong)
