"""L16: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import pytest

from regard.labs.frame.values import verdict_of
from regard.labs.variants import _chooses, judge

LENGTHS = [4, 10, 14]


def found(none=0.4, literal=0.45, best=1.0, short=1.0):
    """Shares of symbols right by arm and length; by location the longest is refused."""
    long = {"none": none, "literal": literal, "location": best, "additive": best, "dot": best, "scaled": best}
    return {arm: {"weights": 1000, 4: short, 10: its, 14: None if arm == "location" else its} for arm, its in long.items()}


def test_the_verdict_follows_from_whether_weights_depend_on_the_question():
    assert verdict_of(judge(found(), 0.0, 0.3, LENGTHS)) == "not_as_written"
    assert verdict_of(judge(found(), 0.3, 0.3, LENGTHS)) == "holds"
    assert verdict_of(judge(found(best=0.4), 0.3, 0.3, LENGTHS)) == "not_as_written", "attention that helps nothing"
    assert verdict_of(judge(found(), 0.0, 0.0, LENGTHS)) == "inconclusive"
    assert verdict_of(judge(found(short=0.3), 0.0, 0.3, LENGTHS)) == "inconclusive"


def test_over_one_item_there_is_nothing_to_choose():
    assert _chooses(1) == 0
    assert _chooses(8) > 0.01


@pytest.mark.slow
def test_both_ways(measured, value):
    plain, broken = measured("variants"), measured("variants", True)
    assert plain.verdict == "not_as_written"
    assert plain.quote_verdicts == ["not_as_written", "holds"]
    assert broken.verdict == "holds"
    assert plain.as_documented
    assert broken.as_documented
    assert value(plain, "chooses") == 0
    assert value(plain, "refused") == 1
