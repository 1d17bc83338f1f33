"""L18: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import pytest
import torch

from regard.labs.depth import WIDTH, _model, _slopes, _texts, judge
from regard.labs.frame.values import verdict_of


def facts(post=1.0, cut=0.12, bare=0.12, lost=0.5, grown=1.0):
    its = {"rate": -1.0, "lost": lost, "grown": grown}
    shares = {"post": post, "pre": 1.0, "no-norm": 1.0, "no-residual": cut, "neither": bare}
    return {arm: its | {"accuracy": share} for arm, share in shares.items()}


def test_the_verdict_follows_from_what_learns():
    assert verdict_of(judge(facts())) == "holds"
    assert verdict_of(judge(facts(post=0.2))) == "not_as_written"
    assert verdict_of(judge(facts(lost=1e-9))) == "not_as_written"
    assert verdict_of(judge(facts(grown=9.0))) == "not_as_written"
    assert verdict_of(judge(facts(cut=1.0))) == "inconclusive", "the residual is not needed"


def test_without_residuals_a_block_gives_the_norm_of_what_its_parts_say():
    model, whole = (_model(arm, 2, False, 0) for arm in ("no-residual", "post"))
    x = torch.randn(1, 5, WIDTH)
    from regard.layers.frame import Frame
    from regard.layers.masks import Everything
    from regard.layout import Layout

    frame = Frame.of([Everything()], Layout.unpadded(5), Layout.unpadded(5))
    one, its = model.encoder.blocks[0], whole.encoder.blocks[0]
    said = its.attention_norm(its.attention(x, frame))
    wanted = its.feedforward_norm(its.feedforward(said))
    torch.testing.assert_close(one(x, frame), wanted)
    assert not torch.allclose(its(x, frame), wanted, atol=0.1)


def test_a_slope_for_each_block_and_the_end():
    slopes, size = _slopes(_model("post", 3, False, 0), _texts(torch.Generator().manual_seed(0), 8))
    assert len(slopes) == 4
    assert size == pytest.approx(1.0, abs=0.01)


@pytest.mark.slow
def test_both_ways(judged, value):
    plain, broken = judged("depth", "not_as_written", "learns")
    assert value(plain, "learns") >= 0.9
    assert value(broken, "learns") < 0.3
