"""L15: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import pytest

from regard.labs.frame.values import verdict_of
from regard.labs.moe import ACTIVE, EXPERTS, INNER, _active, _mixture, _model, _operations, _touched, judge
from regard.layers.experts import Experts
from regard.layers.feedforward import Gated

EXACT = {"touched": ACTIVE, "mixture": 0.0, "operations": [100, 100], "all": EXPERTS}
ROWS = {"experts": {"active": 101}, "dense": {"active": 100}}


def test_the_verdict_follows_from_counts_and_losses():
    losses = {"dense": [1.9, 1.8, 2.0], "experts": [1.0, 1.1, 1.0]}
    assert verdict_of(judge(EXACT, losses, ROWS)) == "holds"
    assert verdict_of(judge(EXACT | {"touched": 3}, losses, ROWS)) == "not_as_written"
    assert verdict_of(judge(EXACT | {"operations": [100, 900]}, losses, ROWS)) == "not_as_written"
    turned = {"dense": losses["experts"], "experts": losses["dense"]}
    assert verdict_of(judge(EXACT, turned, ROWS)) == "not_as_written"
    assert verdict_of(judge(EXACT | {"all": 2}, losses, ROWS)) == "inconclusive"


def test_a_token_touches_the_chosen_experts_alone_and_costs_as_much_whatever_their_number():
    assert _touched(Experts(Gated(INNER), EXPERTS, 3)) == 3
    assert _operations(4, 2) == _operations(16, 2) < _operations(16, 3)
    assert _mixture() < 1e-14


def test_active_weights_are_those_of_the_chosen():
    one, dense = _model(Experts(Gated(INNER), EXPERTS, ACTIVE), 0), _model(Gated(ACTIVE * INNER), 0)
    assert _active(one) - _active(dense) == one.encoder.blocks[0].feedforward.router.weight.numel()


@pytest.mark.slow
def test_both_ways(judged, value):
    plain, _ = judged("moe", "not_as_written", "touched", "operations")
    assert value(plain, "better") > 0
    assert value(plain, "budget") < 1.05
