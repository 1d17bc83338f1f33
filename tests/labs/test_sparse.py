"""L14: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import pytest

from regard.labs.frame.values import verdict_of
from regard.labs.sparse import _cost, _felt, judge
from regard.layers.masks import Everything, Global, Window

FULL = {"slope": 1.9, "difference": 0.0, "felt": 0.1, "near": 1.0, "reach": 1.0, "beyond": 1.0, "far": 1.0}
NARROW = FULL | {"slope": 1.0, "felt": 0.0, "beyond": 0.12, "far": 0.12}


def verdict(full=FULL, window=NARROW, both=NARROW | {"far": 1.0, "beyond": 1.0}):
    return verdict_of(judge({"full": full, "window": window, "global": both}))


def test_the_verdict_follows_from_cost_and_reach():
    assert verdict() == "holds_with_limits"
    assert verdict(window=NARROW | {"beyond": 1.0}) == "holds"
    assert verdict(window=FULL) == "not_as_written"
    assert verdict(window=NARROW | {"difference": 0.1}) == "not_as_written"
    assert verdict(full=NARROW) == "inconclusive"


@pytest.mark.parametrize(("mask", "felt"), [(Window(5), False), (Everything(), True), (Window(5) | Global(1), True)])
def test_two_windows_of_five_reach_eight_tokens(mask, felt):
    assert (_felt(mask, 8) > 0) is felt
    assert _felt(mask, 7) > 0


def test_blocks_give_what_the_definition_gives():
    counts, difference = _cost(Window(5) | Global(1), [512, 1024])
    assert 1.9 < counts[1] / counts[0] < 2.2
    assert difference < 1e-5


@pytest.mark.slow
def test_both_ways(judged, value):
    plain, _ = judged("sparse", "not_as_written", "slope-window", "slope-global", "part")
    assert plain.verdict == "holds_with_limits"
    assert value(plain, "blind") < 0.2
    assert value(plain, "mended") > 0.9
