"""L1."""

from __future__ import annotations


def test_both_ways(judged, value):
    plain, _ = judged("permute", "not_as_written", "follows-float64", "follows-float32")
    assert plain.verdict == "holds_with_limits"
    assert {one.id for one in plain.checks if one.role == "limit" and one.passed} == {"not-invariant", "causal"}
    assert value(plain, "follows-float64") < 1e-12
    assert value(plain, "follows-float32") < 1e-5
    assert len({row["arm"].en for row in plain.rows}) == 5
