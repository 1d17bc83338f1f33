"""L7."""

from __future__ import annotations

import pytest


def test_both_ways(judged, value):
    plain, broken = judged("gradient", "not_as_written", "lost-rnn", "rate")
    assert plain.verdict == "holds"
    assert value(plain, "lost-rnn") < 1e-15
    assert value(broken, "lost-rnn") > 0.1
    assert all(one.passed for one in plain.checks if one.id.startswith("radius") or one.id in ("forget", "same"))


def test_edges_of_the_graph_are_counted(measured):
    rows = {row["arm"].en: row for row in measured("gradient").rows}
    assert rows["RNN"]["path64"] == rows["RNN"]["path1"] + 3 * 63
    assert rows["attention, 2 blocks"]["path64"] == rows["attention, 2 blocks"]["path1"]
    assert rows["linear RNN, radius 1.1"]["rate"] == pytest.approx(0.0953, abs=1e-3)
