"""L10: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import pytest

from regard.labs.frame.values import verdict_of
from regard.labs.recall import judge


def found(rnn, attention, mixed, steps=(50, 80)):
    """Shares of right answers over 8 and 64 tokens."""
    shares = {"rnn": rnn, "gru": rnn, "attention": attention, "mixed": mixed}
    return {
        arm: {n: {"weights": 1000, "steps": count, "accuracy": share} for n, count, share in zip((8, 64), steps, its)}
        for arm, its in shares.items()
    }


def test_the_verdict_follows_from_the_shares():
    far, near, never = (1.0, 1.0), (1.0, 0.06), (0.06, 0.06)
    assert verdict_of(judge(found(near, far, far))) == "holds_with_limits"
    assert verdict_of(judge(found(near, far, near))) == "holds"
    assert verdict_of(judge(found(far, far, far))) == "not_as_written", "an RNN that remembers"
    assert verdict_of(judge(found(near, near, far))) == "not_as_written", "attention that forgets"
    assert verdict_of(judge(found(near, far, far, steps=(50, 400)))) == "not_as_written", "attention that takes ever longer"
    assert verdict_of(judge(found(never, far, far))) == "inconclusive", "the RNN learned nothing at all"


@pytest.mark.slow
def test_both_ways(judged, value):
    plain, _ = judged("recall", "not_as_written", "attention-far")
    assert plain.verdict == "holds_with_limits"
    assert value(plain, "taught") >= 0.9
    assert value(plain, "rnn-far") < 0.15
