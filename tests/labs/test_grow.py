"""L21: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import math

import pytest

from regard.labs.frame.values import verdict_of
from regard.labs.grow import WORDS, _Language, judge


def measured(weights=(2.0, 1.0, 0.5, 0.26), tokens=(2.0, 1.0, 0.5), few=(2.0, 2.1, 2.4, 3.0), nothing=(3.47, 3.47)):
    """Excess losses of models of 1, 2, 4, 8 thousand weights, by data, of the least data, and losses where nothing is to be
    learned."""
    series = {
        "weights": [{"weights": 1000.0 * 2**n, "excess": its} for n, its in enumerate(weights)],
        "tokens": [{"tokens": 1000.0 * 2**n, "excess": its} for n, its in enumerate(tokens)],
        "few": [{"weights": 1000.0 * 2**n, "excess": its} for n, its in enumerate(few)],
    }
    path = [{"steps": 100.0 * 2**n, "excess": 1.0 / 2**n} for n in range(4)]
    return series, path, list(nothing)


def test_the_verdict_follows_from_the_powers():
    assert verdict_of(judge(*measured())) == "holds_with_limits"
    assert verdict_of(judge(*measured(few=(2.0, 1.9, 1.8, 1.7)))) == "holds"
    assert verdict_of(judge(*measured(weights=(1.0, 1.1, 1.0, 1.1)))) == "not_as_written"
    assert verdict_of(judge(*measured(tokens=(1.0, 1.2, 1.4)))) == "not_as_written"
    assert verdict_of(judge(*measured(nothing=(3.47, 3.2)))) == "inconclusive"


def test_the_least_loss_is_that_of_one_who_knows_the_table():
    flat, rich = _Language(True), _Language(False)
    texts = rich.texts(200, 1)
    assert texts.shape == (200, 33)
    assert flat.least(texts) == pytest.approx(math.log(WORDS))
    assert 0.5 < rich.least(texts) < math.log(WORDS) - 0.5


@pytest.mark.slow
def test_both_ways(judged):
    plain, _ = judged("grow", "not_as_written", "weights")
    assert plain.rows
