"""Tests of quotients of sums, against sacrebleu's where it has the same metric."""

from __future__ import annotations

import random

import pytest
from sacrebleu.metrics.ter import TER

from regard.evaluation.compare import Comparing, compare, verdict
from regard.evaluation.resampling import of_sums
from regard.evaluation.scores import score

WORDS = tuple("abcdefghij")


def _corpus() -> tuple[list[str], list[str], list[str]]:
    draw = random.Random(5)
    references = [" ".join(draw.choices(WORDS, k=draw.randint(3, 12))) for _ in range(40)]
    bad, good = (
        [" ".join(w for w in text.split() if draw.random() > loss) or "a" for text in references] for loss in (0.4, 0.1)
    )
    return references, bad, good


REFERENCES, BAD, GOOD = _corpus()


def test_the_test_of_a_quotient_is_sacrebleus() -> None:
    """TER is edits over words, so what sacrebleu says of it must come out, from the same resamples."""
    options = Comparing(metrics=["ter"], samples=200, seed=7)
    (theirs,) = compare([REFERENCES], BAD, GOOD, options=options).tests
    sides = [TER()._extract_corpus_statistics(texts, [REFERENCES]) for texts in (BAD, GOOD)]
    ours = of_sums("ter", theirs.signature, (sides[0], sides[1]), 200, 7)
    for one, other in ((ours.first, theirs.first), (ours.second, theirs.second)):
        assert one.score == pytest.approx(other.score)
        assert one.mean == pytest.approx(other.mean)
        assert one.half_width == pytest.approx(other.half_width, rel=0.05)  # sacrebleu sorts and takes whole places
    assert (ours.low, ours.high) == (pytest.approx(theirs.low), pytest.approx(theirs.high))
    assert ours.p_value == theirs.p_value
    assert ours.p_randomised == pytest.approx(theirs.p_randomised, abs=0.02)


@pytest.mark.parametrize("metric", ["exact_match", "word_error", "wer", "per", "cer", "rouge1", "rougel"])
def test_every_metric_that_is_counted_can_decide(metric: str) -> None:
    if metric.startswith("rouge"):
        pytest.importorskip("rouge_score")
    (test,) = compare([REFERENCES], BAD, GOOD, options=Comparing(metrics=[metric], samples=200, seed=3)).tests
    for side, texts in ((test.first, BAD), (test.second, GOOD)):
        assert side.score == score(texts, [REFERENCES], [metric])[metric].value
        assert abs(side.mean - side.score) < side.half_width
    assert test.low < test.difference < test.high
    assert test.p_value < 0.05
    assert test.p_randomised < 0.05
    assert verdict(test, ("bad", "good")) == "good is better"


def test_a_system_does_not_beat_itself() -> None:
    (test,) = compare([REFERENCES], BAD, list(BAD), options=Comparing(metrics=["wer"], samples=50)).tests
    assert (test.difference, test.p_value, test.p_randomised) == (0.0, 1.0, 1.0)


def test_where_nothing_is_counted_errors_are_all_there_is() -> None:
    test = of_sums("wer", "", ([(0.0, 0.0)], [(2.0, 0.0)]), 10, 1)
    assert (test.first.score, test.second.score) == (0.0, 100.0)
