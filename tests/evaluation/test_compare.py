"""Two systems side by side, against sacrebleu's own paired bootstrap."""

from __future__ import annotations

import json
import os
import random

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from regard.errors import UserError
from regard.evaluation.compare import Comparing, compare, verdict

WORDS = tuple("abcdefghijklmnopqrst")


def _corpus(count: int = 60) -> tuple[list[str], list[str], list[str], list[str]]:
    """Sources, references, a bad system that loses a third of the words, a better one that loses a tenth."""
    draw = random.Random(3)
    references = [" ".join(draw.choices(WORDS, k=draw.randint(3, 35))) + "." for _ in range(count)]
    bad, good = (
        [" ".join(w for w in text.split() if draw.random() > loss) or "the" for text in references] for loss in (0.3, 0.1)
    )
    return [text.upper() for text in references], references, bad, good


SOURCES, REFERENCES, BAD, GOOD = _corpus()
FAST = Comparing(samples=100, seed=7, worst=2)


def test_the_test_is_sacrebleus_with_the_seed_and_count_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compare([REFERENCES], BAD, GOOD, options=FAST)
    monkeypatch.setenv("SACREBLEU_SEED", "7")
    metrics = {"bleu": BLEU(), "chrf": CHRF()}
    _, table = PairedTest([("a", BAD), ("b", GOOD)], metrics, [REFERENCES], "bs", 100)()
    for test, name in zip(found.tests, ("BLEU", "chrF2")):
        first, second = table[name]
        assert (test.first.score, test.first.mean, test.first.half_width) == (first.score, first.mean, first.ci)
        assert (test.second.score, test.second.mean, test.second.half_width) == (second.score, second.mean, second.ci)
        assert test.p_value == second.p_value
        assert "bs:100|seed:7" in test.signature
    assert any("100 resamples, seed 7" in line for line in found.lines())
    _, shuffled = PairedTest([("a", BAD), ("b", GOOD)], metrics, [REFERENCES], "ar", 100)()
    assert [test.p_randomised for test in found.tests] == [shuffled[name][1].p_value for name in ("BLEU", "chrF2")]


def test_equal_systems_do_not_differ() -> None:
    for test in compare([REFERENCES], GOOD, list(GOOD), options=Comparing(("bleu", "ter"), samples=20)).tests:
        assert (test.difference, test.p_value, test.p_randomised) == (0, 1, 1)


def test_unknown_words_part_the_sentences() -> None:
    known = {word for text in SOURCES for word in text.split()} - set(SOURCES[0].split())
    found = compare([REFERENCES], BAD, GOOD, SOURCES, options=Comparing(("bleu",), samples=2, source_words=known))
    assert found.unknown[-1].lengths == "over 2"
    assert sum(row.sentences for row in found.unknown) == len(SOURCES)
    assert any("never learned from" in line for line in found.lines())
    assert compare([REFERENCES], BAD, GOOD, options=FAST).unknown == []


def test_the_interval_of_the_difference_lies_around_it_and_decides() -> None:
    for test in compare([REFERENCES], BAD, GOOD, options=FAST).tests:
        assert 0 < test.low < test.difference < test.high
        assert test.difference == test.second.score - test.first.score
        assert verdict(test, ("A", "B")) == "B is better"


def test_the_interval_uses_the_resamples_of_the_test() -> None:
    """Percentiles of 20 differences, computed one corpus score after another."""
    import numpy as np

    found = compare([REFERENCES], BAD, GOOD, options=Comparing(("bleu",), samples=20, seed=5)).tests[0]
    rows = np.random.default_rng(5).choice(len(REFERENCES), size=(20, len(REFERENCES)), replace=True)
    gaps = [
        BLEU().corpus_score([GOOD[i] for i in row], [[REFERENCES[i] for i in row]]).score
        - BLEU().corpus_score([BAD[i] for i in row], [[REFERENCES[i] for i in row]]).score
        for row in rows
    ]
    assert [found.low, found.high] == pytest.approx(np.percentile(gaps, [2.5, 97.5]).tolist())


def test_for_ter_less_is_better() -> None:
    test = compare([REFERENCES], BAD, GOOD, options=Comparing(("ter",), samples=100)).tests[0]
    assert test.difference < 0
    assert verdict(test, ("A", "B")) == "B is better"


def test_a_system_does_not_beat_itself_and_the_environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    found = compare([REFERENCES], GOOD, GOOD, options=FAST)
    assert "SACREBLEU_SEED" not in os.environ
    for test in found.tests:
        assert (test.difference, test.low, test.high) == (0, 0, 0)
        assert verdict(test, ("A", "B")) == "no difference beyond chance"
    assert not found.better_first
    assert not found.better_second


def test_the_same_seed_gives_the_same_numbers() -> None:
    assert compare([REFERENCES], BAD, GOOD, options=FAST) == compare([REFERENCES], BAD, GOOD, options=FAST)


def test_buckets_split_all_sentences_by_source_length() -> None:
    found = compare([REFERENCES], BAD, GOOD, SOURCES, options=Comparing(("bleu",), samples=1, buckets=(10, 20)))
    assert found.measure == "words of the source"
    assert [bucket.lengths for bucket in found.buckets] == ["1-10", "11-20", "over 20"]
    assert sum(bucket.sentences for bucket in found.buckets) == len(REFERENCES)
    rows = [i for i, text in enumerate(SOURCES) if 10 < len(text.split()) <= 20]
    outside = BLEU().corpus_score([BAD[i] for i in rows], [[REFERENCES[i] for i in rows]]).score
    assert (found.buckets[1].sentences, found.buckets[1].first) == (len(rows), outside)


def test_chinese_sources_are_measured_in_characters() -> None:
    options = Comparing(("chrf",), samples=1, buckets=(3,), source_language="zh")
    found = compare([["Hi.", "He runs."]], ["Hi.", "He ran."], ["Hi.", "He runs."], ["你好", "他跑步了"], options=options)
    assert found.measure == "characters of the source"
    assert [(b.lengths, b.sentences) for b in found.buckets] == [("1-3", 1), ("over 3", 1)]


def test_the_sentences_shown_are_those_that_differ_most() -> None:
    references = ["one two three four", "five six seven eight", "nine ten eleven twelve"]
    first = ["one two three four", "five six", "nine ten eleven twelve"]
    second = ["x", "five six seven eight", "nine ten eleven twelve"]
    found = compare([references], first, second, options=Comparing(samples=1, worst=5))
    assert [s.line for s in found.better_first] == [1]
    assert [s.line for s in found.better_second] == [2]
    assert found.better_first[0].first_chrf == pytest.approx(100)


def test_several_references_may_be_unequal_in_number() -> None:
    more = [text if i % 2 else None for i, text in enumerate(BAD)]
    one = compare([REFERENCES], BAD, GOOD, options=FAST).tests[0]
    two = compare([REFERENCES, more], BAD, GOOD, options=FAST).tests[0]
    assert two.first.score > one.first.score
    assert "nrefs:var" in two.signature


def test_the_json_of_a_comparison_is_json() -> None:
    document = json.loads(json.dumps(compare([REFERENCES], BAD, GOOD, SOURCES, options=FAST).json()))
    assert {"tests", "buckets", "better_first", "seed", "samples"} <= set(document)


def test_mistakes_are_told() -> None:
    with pytest.raises(UserError, match="A has 60 lines but B has 59"):
        compare([REFERENCES], BAD, GOOD[:-1])
    with pytest.raises(UserError, match=r"60 sentences .* 59 lines"):
        compare([REFERENCES[:-1]], BAD, GOOD)
    with pytest.raises(UserError, match="60 translations but 1 source"):
        compare([REFERENCES], BAD, GOOD, ["a"])
    with pytest.raises(UserError, match="unknown metric 'bert'"):
        compare([REFERENCES], BAD, GOOD, options=Comparing(("bert",)))
    with pytest.raises(UserError, match="seed must be 1 or more"):
        Comparing(seed=0)
    with pytest.raises(UserError, match="buckets must be growing"):
        Comparing(buckets=(10, 5))
    with pytest.raises(UserError, match="samples must be 1"):
        Comparing(samples=0)
