"""The learning of unigram pieces, against the same done by listing every division."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest

from regard.text.unigram import LONGEST, _candidates, _digamma, _Lattices, learn


def divisions(text: str, ids: dict[str, int]) -> list[list[int]]:
    found = []
    for cuts in product((False, True), repeat=len(text) - 1):
        pieces, start = [], 0
        for place, cut in enumerate((*cuts, True), 1):
            if cut:
                pieces.append(text[start:place])
                start = place
        if all(piece in ids for piece in pieces):
            found.append([ids[piece] for piece in pieces])
    return found


def test_expected_counts_and_best_divisions_equal_those_by_listing() -> None:
    names = ["a", "b", "c", "ab", "bc", "abc", "ca", "cab"]
    ids = {name: number for number, name in enumerate(names)}
    scores = np.log(np.random.default_rng(0).dirichlet(np.ones(len(names))))
    texts, counts = ["abcab", "cabc", "a", "bcabcab"], np.array([3.0, 1.0, 5.0, 2.0])
    expected, best = np.zeros(len(names)), []
    for text, count in zip(texts, counts):
        all_ways = divisions(text, ids)
        chances = np.array([np.exp(scores[way].sum()) for way in all_ways])
        best.append(np.log(chances.max()))
        for way, chance in zip(all_ways, chances / chances.sum()):
            for piece in way:
                expected[piece] += count * chance
    lattices = _Lattices(texts, ids)
    np.testing.assert_allclose(lattices.expected(scores, counts), expected, rtol=1e-12)
    np.testing.assert_allclose(lattices.best(scores), best, rtol=1e-12)


def test_dead_pieces_are_in_no_division() -> None:
    ids = {"a": 0, "b": 1, "ab": 2}
    lattices = _Lattices(["ab"], ids)
    lattices.drop(np.array([True, True, False]))
    scores = np.log([0.5, 0.5, 1.0])
    assert lattices.expected(scores, np.array([4.0])).tolist() == [4.0, 4.0, 0.0]
    assert lattices.best(scores)[0] == pytest.approx(np.log(0.25))


def test_a_piece_is_not_its_own_replacement() -> None:
    inside = _Lattices(["ab", "abc"], {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, whole=False)
    scores = np.log([0.1, 0.1, 0.1, 0.3, 0.4])
    np.testing.assert_allclose(inside.best(scores), np.log([0.01, 0.03]))


def test_candidates_are_strings_that_stand_on_their_own() -> None:
    names, counts = _candidates({" many": 3, " man": 2, "x": 1}, set(" manyx"), 100)
    assert dict(zip(names, counts)) == {
        " many": 3, " man": 5, " ": 5, "m": 5, "a": 5, "n": 5, "y": 3, "x": 1,
    }  # fmt: skip


def test_pieces_are_probabilities_and_no_longer_than_allowed() -> None:
    words = Counter({"abcdefghijklmnopqrstuvwxyz" * 4: 10, "abc": 5, "xyz": 7})
    pieces = learn(words, set("abcdefghijklmnopqrstuvwxyz"), 60)
    assert len(pieces) <= 60
    assert max(len(name) for name, _ in pieces) <= LONGEST
    assert {name for name, _ in pieces if len(name) == 1} == set("abcdefghijklmnopqrstuvwxyz")
    assert all(score < 0 for _, score in pieces)
    assert pieces == sorted(pieces, key=lambda piece: (-piece[1], piece[0]))


def test_the_order_of_words_does_not_matter() -> None:
    words = {f"w{number % 7}x{number % 11}": number % 5 + 1 for number in range(77)}
    backwards = dict(reversed(words.items()))
    alphabet = set("wx0123456789")
    assert learn(Counter(words), alphabet, 40) == learn(Counter(backwards), alphabet, 40)


def test_long_words_of_rare_letters_do_not_underflow() -> None:
    words = Counter({"z" * 5000: 1, "q" * 63: 1, "a": 10**9})
    pieces = dict(learn(words, set("zqa"), 10))
    assert np.isfinite(list(pieces.values())).all()


def test_digamma() -> None:
    values = _digamma(np.array([0.1, 1.0, 2.0, 100.0]))
    np.testing.assert_allclose(values, [-10.423754940411, -0.577215664902, 0.422784335098, 4.600161852738], atol=1e-8)
