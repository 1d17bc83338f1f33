"""L19: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import pytest
import torch

from regard.labs.frame.values import verdict_of
from regard.labs.patches import GRID, PATCH, _as_tokens, _images, _model, _moved, _others, judge


def facts(places=1.0, none=0.25, shuffled=0.25, tokens=0.0, others=0):
    its = {"tokens": tokens, "others": others, "moved": 0.0}
    shares = {"places": places, "none": none, "shuffled": shuffled}
    return {arm: its | {"accuracy": share} for arm, share in shares.items()}


def test_the_verdict_follows_from_what_learns():
    assert verdict_of(judge(facts())) == "holds"
    assert verdict_of(judge(facts(places=0.3))) == "not_as_written"
    assert verdict_of(judge(facts(tokens=1.0))) == "not_as_written"
    assert verdict_of(judge(facts(others=1))) == "not_as_written"
    assert verdict_of(judge(facts(none=0.9))) == "inconclusive"


def test_the_dot_is_in_its_quarter():
    its = _images(torch.Generator().manual_seed(0), 200)
    bright = its["inputs"].flatten(1).argmax(1)
    row, column = bright // (GRID * PATCH), bright % (GRID * PATCH)
    half = GRID * PATCH // 2
    assert torch.equal(2 * (row >= half) + (column >= half), its["targets"].ids)


def test_patches_are_tokens_of_the_encoder_of_texts():
    model, images = _model("places", 0), _images(torch.Generator().manual_seed(0), 4)["inputs"]
    assert _as_tokens(model, images) < 1e-5
    assert _others(model) == 0
    assert _moved(_model("none", 0), images) < 1e-5 < _moved(model, images)


@pytest.mark.slow
def test_both_ways(judged, value):
    plain, _ = judged("patches", "not_as_written", "learns")
    assert value(plain, "learns") >= 0.9
