"""L2."""

from __future__ import annotations


def test_both_ways(judged, value):
    plain, broken = judged("scale", "not_as_written", "scaled")
    assert plain.verdict == "holds"
    assert value(plain, "vanishes") < 0.01
    assert value(plain, "explain") < 1e-4
    even = [row["entropy"] for row in broken.rows if row["arm"].en.startswith("q·k /")]
    assert even[-1] > 4.1  # log 64 = 4.16: divided by d_k, attention is blind


def test_the_mean_gradient_would_refute_the_note_by_accident(measured, value):
    plain = measured("scale")
    assert value(plain, "mean") > 1
    assert any("median" in limit.en for limit in plain.limits)
