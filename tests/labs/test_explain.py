"""L17: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import pytest
import torch

from regard.labs.explain import BLANK, CLASSES, WHOLE, _gradients, _model, _taken, _texts, judge
from regard.labs.frame.values import verdict_of


def measured(one=1.0, taken=1.0, moved=0.1, right=1.0, begin=0.1):
    shares = {"last": one, "taken": taken, "worst": 0.1}
    facts = {"accuracy": right, "begin": begin, "moved": moved, "missing": 0.01}
    return {1: shares, 3: shares}, {1: facts, 3: facts}


def test_the_verdict_follows_from_how_often_the_cause_is_found():
    assert verdict_of(judge(*measured())) == "holds_with_limits"
    assert verdict_of(judge(*measured(moved=0.9))) == "holds"
    assert verdict_of(judge(*measured(one=0.1))) == "not_as_written"
    assert verdict_of(judge(*measured(taken=0.2))) == "inconclusive", "the answer hangs on something else"
    assert verdict_of(judge(*measured(begin=0.9))) == "inconclusive"
    assert verdict_of(judge(*measured(right=0.3))) == "inconclusive"


def test_the_planted_token_says_the_class():
    given, place = _texts(torch.Generator().manual_seed(0), 60)
    ids = given["inputs"]
    assert torch.equal(ids[torch.arange(60), place], given["targets"].ids)
    assert int((ids < CLASSES).sum()) == 60
    assert (ids[:, 0] == WHOLE).all()
    assert bool((ids == BLANK).any())


def test_integrated_gradients_add_up_with_many_steps():
    model = _model(1, False, 0)
    ids = _texts(torch.Generator().manual_seed(0), 4)[0]["inputs"]
    answer = torch.zeros(4, dtype=torch.long)
    few, many = _gradients(model, ids, answer, 4)[2], _gradients(model, ids, answer, 128)[2]
    assert many < 0.05
    assert many < few
    assert _taken(model, ids, answer).shape == ids.shape


@pytest.mark.slow
def test_both_ways(judged, value):
    plain, broken = judged("explain", "not_as_written", "one")
    assert value(plain, "cause") >= 0.9
    assert value(broken, "cause") >= 0.9
