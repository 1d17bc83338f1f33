"""L5."""

from __future__ import annotations


def test_both_ways(judged, value):
    plain, broken = judged("masks", "not_as_written", "future", "earlier", "prefix_hidden", "double", "single")
    assert plain.verdict == "holds"
    assert value(plain, "future") == value(plain, "earlier") == 0
    assert broken.quote_verdicts[0] == "holds"  # nothing was done to the encoder that sees both ways
    assert [len(plot.cells) for plot in plain.plots] == [8] * 5
