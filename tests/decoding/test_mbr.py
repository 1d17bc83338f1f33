"""Minimum Bayes risk against sacrebleu's sentence scores, one pair of texts after another."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.decoding.mbr import Mbr, expected, utilities
from regard.decoding.options import Hypothesis, Search
from regard.errors import UserError

ODD = ["", ".", "a", "the the the the", "Il fait beau.", "Il fait très beau !", "il  fait beau .", "x", "élève", "(l'eau)"]
CHINESE = ["今天天气很好。", "今天的天气好。", "天气", "今天 weather 很好", "他去了商店，买了 3 个苹果。"]


def some(seed):
    draw = random.Random(seed)
    words = ["un", "homme", "chien", "court", "dans", "le", "parc,", "vite.", "l'eau"]
    return [" ".join(draw.choices(words, k=draw.randint(1, 9))) for _ in range(12)]


def slow(texts, utility):
    """sacrebleu asked for every pair."""
    tokenize = "zh" if any("\u4e00" <= c <= "\u9fff" for text in texts for c in text) else "13a"
    metric = CHRF() if utility == "chrf" else BLEU(effective_order=True, tokenize=tokenize)
    return np.array([[metric.sentence_score(one, [other]).score for other in texts] for one in texts])


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
@pytest.mark.parametrize("texts", [ODD, CHINESE, some(1), some(2)], ids=["odd", "chinese", "1", "2"])
def test_utilities_are_sacrebleus(texts, utility) -> None:
    np.testing.assert_allclose(utilities(texts, utility), slow(texts, utility), atol=1e-9)


def beam(*pairs):
    return [Hypothesis([n], log / 3, log) for n, (_, log) in enumerate(pairs)], lambda ids: [pairs[one[0]][0] for one in ids]


@pytest.mark.parametrize("utility", ["chrf", "bleu"])
@pytest.mark.parametrize("sampled", [False, True])
def test_the_choice_is_that_of_the_definition(utility, sampled) -> None:
    """Every candidate with every other as its reference, repeated ones among them, weighted as the module says."""
    texts = [*some(3), *some(3)[:4], "un homme court dans le parc, vite."]
    logs = [-1.0 - 0.3 * n for n in range(len(texts))]
    hypotheses, spell = beam(*zip(texts, logs))
    weights = np.array([1.0 if sampled else math.exp(log) for log in logs])
    worth = slow(texts, utility) @ (weights / weights.sum())
    (found,) = Mbr(utility, 8).chosen([hypotheses], spell, Search(sample=sampled), len(texts))
    assert len(found) == len(set(texts)) < len(texts)
    assert found[0].score == pytest.approx(worth.max())
    assert spell([found[0].ids])[0] == texts[int(worth.argmax())]
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    for one in found:
        assert one.score == pytest.approx(worth[texts.index(spell([one.ids])[0])])


def test_of_equal_texts_the_likeliest_is_kept_and_single_ones_stay() -> None:
    hypotheses, spell = beam(("a b", -3.0), ("c", -1.0), ("a b", -2.0))
    (found,) = Mbr("chrf", 3).chosen([hypotheses], spell, Search(sample=True), 5)
    assert found[0] == Hypothesis([2], found[0].score, -2.0)
    assert Mbr("chrf", 3).chosen([hypotheses[:1]], spell, Search(), 5) == [hypotheses[:1]]
    assert expected(["x", "y"], np.array([3.0, 1.0]), "chrf") == pytest.approx([75.0, 25.0])


def test_options() -> None:
    assert Mbr.divided({"num_beams": 3, "mbr": "bleu"}) == (Mbr("bleu"), {"num_beams": 3})
    assert not Mbr.divided({"mbr": None, "candidates": None})[0]
    assert Mbr("chrf", 12).widened(Search(num_beams=5)) == Search(num_beams=12, num_return=12)
    assert Mbr("chrf", 12).widened(Search(sample=True)) == Search(sample=True, num_return=12)
    with pytest.raises(UserError, match="mbr must be one of chrf, bleu"):
        Mbr("ter")
    with pytest.raises(UserError, match="from 2 to 1,000, not 1"):
        Mbr("chrf", 1)
    with pytest.raises(UserError, match="candidates are for MBR"):
        Mbr.divided({"candidates": 8})


@pytest.mark.parametrize("options", [{"candidates": 6}, {"candidates": 5, "sample": True, "seed": 4, "num_return": 3}])
def test_a_translator_chooses(shared, translator_for, options) -> None:
    its = translator_for(shared)
    texts = ["A dog runs in the park .", "", "Two men play football ."]
    for parameter in its.model.parameters():
        parameter.data.normal_(0.0, 0.4)
    found = its.translate(texts, details=True, max_length=8, mbr="chrf", **options)
    count = options["candidates"]
    plain = {"num_beams": count} if "sample" not in options else {"sample": True, "seed": 4}
    every = its.translate(texts, details=True, max_length=8, num_return=count, **plain)
    assert found[1].text == ""
    for one, of in zip(found, every):
        texts_of = [each.text for each in (of, *of.alternatives)]
        logs = [0.0 if "sample" in options else each.log_prob for each in (of, *of.alternatives)]
        worth = slow(texts_of, "chrf") @ (np.exp(logs) / np.exp(logs).sum())
        if one.text:
            assert worth[texts_of.index(one.text)] == pytest.approx(worth.max())
            assert one.score == pytest.approx(worth.max())
        assert len(one.alternatives) < options.get("num_return", 1)
    assert its.translate(texts, max_length=8, mbr="chrf", **options) == [one.text for one in found]
