"""L8. What is counted is judged; times are told, and no test asks for them."""

from __future__ import annotations


def test_both_ways(judged, value):
    plain, broken = judged("cost", "not_as_written", "attention", "scores")
    assert plain.verdict == "holds_with_limits"
    assert plain.quote_verdicts == ["holds", "holds_with_limits", "holds"]
    assert value(broken, "attention") < 1.2


def test_operations_are_those_of_the_formulas(measured):
    for row in measured("cost").rows:
        n = row["n"]
        wanted = {
            "RNN": 4 * 64**2 * n,
            "GRU": 12 * 64**2 * n,
            "attention, by definition": 8 * 64**2 * n + 4 * 64 * n**2,
            "attention, fused": 8 * 64**2 * n + 4 * 64 * n**2,
        }
        if row["arm"].en in wanted and row["flops"] is not None:
            assert row["flops"] == wanted[row["arm"].en]
