"""Words of texts, and the words that tokens belong to."""

from __future__ import annotations

import pytest

from regard.text.words import has_letters, owners, turned, word_spans


def test_words() -> None:
    assert word_spans(" A dog , runs") == [(1, 2), (3, 6), (7, 8), (9, 13)]
    assert word_spans("他 runs快。") == [(0, 1), (2, 6), (6, 7), (7, 8)]
    assert word_spans("  ") == word_spans("") == []


def test_owners() -> None:
    spans = word_spans("A dog runs")
    assert owners(spans, [(0, 1), (1, 3), (3, 5), (5, 6), (5, 8), (8, 10), (2, 2)]) == [0, 1, 1, -1, 2, 2, -1]
    assert owners([], [(0, 1)]) == [-1]


def test_letters() -> None:
    assert has_letters("3D")
    assert not has_letters("3.14")


@pytest.mark.parametrize("text", ["", " ", "Un chien  court.", " a b ", "我爱b你 c", "a", "x\ty  z "])
def test_words_in_the_opposite_order_and_back(text: str) -> None:
    assert turned(turned(text)) == text
    assert [turned(text)[slice(*span)] for span in word_spans(turned(text))] == [
        text[slice(*span)] for span in reversed(word_spans(text))
    ]
