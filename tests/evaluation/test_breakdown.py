"""Words by frequency and unknown words, counted by hand."""

from __future__ import annotations

import pytest

from regard.evaluation.breakdown import WordBucket, by_frequency, unknown_words, words_of
from regard.evaluation.scores import Scoring


def test_words_are_those_of_bleu() -> None:
    assert words_of(["It's fine, really.", None], Scoring("en")) == [["It's", "fine", ",", "really", "."], []]
    assert words_of(["天气 good。"], Scoring("zh")) == [["天", "气", "good", "。"]]


def test_unknown_words_are_those_never_learned_from() -> None:
    assert unknown_words(["a b, c", "a", ""], {"a", ","}, "en") == [2, 0, 0]


def test_f1_of_each_range_by_hand() -> None:
    counts = {"the": 2000, "dog": 7, "barks": 1}
    references = ["the dog barks", "the the zebra"]
    first, second = ["the cat barks", "the zebra"], ["the dog barks", "the the the"]
    found = by_frequency([references], first, second, counts, Scoring())
    assert found == [
        WordBucket("0", 1, pytest.approx(100 * 2 * 1 / (2 + 1)), 0.0),  # cat is written, zebra is wanted and written
        WordBucket("1", 1, 100.0, 100.0),
        WordBucket("5-9", 1, 0.0, 100.0),
        WordBucket("over 999", 3, pytest.approx(100 * 2 * 2 / (2 + 3)), pytest.approx(100 * 2 * 3 / (4 + 3))),
    ]


def test_references_count_where_nothing_else_does_and_the_nearest_counts() -> None:
    sets = [["a a b", "c"], ["x y z", None]]
    found = by_frequency(sets, ["x y z", "c"], ["a a b", "d"], None, Scoring())
    assert [(row.frequency, row.words) for row in found] == [("1", 2), ("2-4", 2)]
    assert found[0].first == pytest.approx(100 * 2 * 1 / (1 + 1))
    assert found[1].second == 100.0
    assert found[1].first == 0.0
