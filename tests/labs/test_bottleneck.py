"""L9: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import pytest

from regard.labs.bottleneck import judge
from regard.labs.frame.values import verdict_of

LENGTHS = [4, 5, 10, 15]
WEIGHTS = {"fixed": 1000, "attention": 1010, "wide": 4000}


def found(fixed, attention, wide):
    """One seed of each arm; shares of symbols at the four lengths."""
    its = {"fixed": fixed, "attention": attention, "wide": wide}
    return {arm: [{n: (share, share) for n, share in zip(LENGTHS, shares)}] for arm, shares in its.items()}


def verdict(*shares, weights=WEIGHTS):
    return verdict_of(judge(found(*shares), LENGTHS, weights))


def test_the_verdict_follows_from_the_shares():
    falls, stays, between = [1.0, 0.8, 0.4, 0.3], [1.0, 1.0, 0.99, 0.9], [1.0, 0.9, 0.6, 0.4]
    assert verdict(falls, stays, between) == "holds"
    assert verdict(falls, falls, between) == "not_as_written", "attention that helps nothing"
    assert verdict(stays, stays, stays) == "inconclusive", "a wider vector must hold more"
    assert verdict([0.5, 0.4, 0.3, 0.2], stays, between) == "inconclusive", "the task was not learned"
    assert verdict(falls, stays, between, weights=WEIGHTS | {"fixed": 900}) == "inconclusive", "unequal budgets"


@pytest.mark.slow
def test_both_ways(judged, value):
    plain, broken = judged("bottleneck", "not_as_written", "gap", "steady")
    assert value(plain, "gap") > 0.2
    assert len({row["weights"] for row in plain.rows}) == 3
    assert value(broken, "short") >= 0.9
