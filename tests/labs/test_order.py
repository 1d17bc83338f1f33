"""L4."""

from __future__ import annotations


def test_both_ways(judged, value):
    plain, broken = judged("order", "not_as_written", "equal", "chance")
    assert plain.verdict == "holds_with_limits"
    assert value(plain, "chance") == 0.5
    assert value(broken, "chance") > 0.5
    assert {row["steps"] for row in plain.rows} == {100}
