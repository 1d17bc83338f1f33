"""L20: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import pytest
import torch

from regard.labs.frame.values import verdict_of
from regard.labs.pretrain import FEW, MANY, MASK, TOPICS, _hidden, _texts, judge
from regard.layers.heads import IGNORED


def found(scratch=(0.5, 0.95), pretrained=(0.9, 0.96), scrambled=(0.51, 0.95)):
    arms = {"scratch": scratch, "pretrained": pretrained, "scrambled": scrambled}
    noise = (0.0, 0.01, -0.01)
    return {arm: {n: [share + e for e in noise] for n, share in zip((FEW, MANY), its)} for arm, its in arms.items()}


def test_the_verdict_follows_from_the_gains():
    assert verdict_of(judge(found())) == "holds_with_limits"
    assert verdict_of(judge(found(scratch=(0.5, 0.85), pretrained=(0.9, 1.2)))) == "holds"
    assert verdict_of(judge(found(pretrained=(0.5, 0.95)))) == "not_as_written"
    assert verdict_of(judge(found(scrambled=(0.9, 0.95)))) == "inconclusive", "scrambled texts teach as much"
    assert verdict_of(judge(found(scratch=(0.5, 0.6)))) == "inconclusive", "labels do not help at all"


def test_words_keep_company_by_topic_and_scrambled_they_do_not():
    ids, topic = _texts(torch.Generator().manual_seed(0), 2000)
    own = float((ids % TOPICS == topic[:, None]).float().mean())
    assert own == pytest.approx(0.75 + 0.25 / TOPICS, abs=0.02)
    ids, topic = _texts(torch.Generator().manual_seed(0), 2000, scrambled=True)
    assert float((ids % TOPICS == topic[:, None]).float().mean()) == pytest.approx(1 / TOPICS, abs=0.02)


def test_a_word_is_hidden_in_each_text_and_asked_for():
    given = _hidden(torch.Generator().manual_seed(0), False)
    hidden = given["inputs"] == MASK
    assert hidden.any(1).all()
    assert torch.equal(hidden, given["targets"].ids != IGNORED)


@pytest.mark.slow
def test_both_ways(measured, value):
    plain, broken = measured("pretrain"), measured("pretrain", True)
    assert plain.verdict == plain.expected
    assert broken.verdict == "not_as_written"
    assert {"gain", "structure"} & {one.id for one in broken.checks if one.role == "claim" and not one.passed}
    assert value(plain, "gain") > 0
