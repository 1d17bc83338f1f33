"""Flags that texts, attention and likelihood raise."""

from __future__ import annotations

import pytest

from regard.decoding.flags import FLAGS, THRESHOLDS, Thresholds, copied, loops, source_flags, text_flags, words_of


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("a b c", 1),
        ("a a", 1),
        ("a a a", 2),
        ("a a a a", 3),
        ("a b a b", 2),
        ("c a b a b a b", 3),
        ("", 1),
        ("a b c a b c", 2),
    ],
)
def test_loops(words, count) -> None:
    assert loops(words.split()) == count


def test_copies() -> None:
    assert copied(list("abcd"), list("abxd")) == 0.75
    assert copied(["a"], []) == 0.0
    assert words_of("A dog, 足球") == ["A", "dog,", "足", "球"]


@pytest.mark.parametrize(
    ("source", "text", "tokens", "found"),
    [
        ("The red house", "La maison rouge", (3, 3), []),
        ("The red house", " ", (3, 0), ["empty"]),
        (" ", "", (0, 0), []),
        ("one two", "de la salle de la salle de la salle", (3, 9), ["repetition"]),
        ("ha ha ha ha ha", "ha ha ha ha ha", (6, 6), ["copied"]),
        ("the red house is here", "the red house is là", (6, 6), ["copied"]),
        ("New York", "New York", (2, 2), []),
        ("a b c", "x y z", (3, 30), ["too-long"]),
        ("a b c", "x", (60, 1), ["too-short"]),
    ],
)
def test_what_texts_show(source, text, tokens, found) -> None:
    assert text_flags(source, text, tokens) == found


@pytest.mark.parametrize(
    ("coverage", "explained", "found"),
    [
        ([1, 1, 1, 1], 0.9, ([], [])),
        ([1, 1, 1, 0.1], 0.9, (["uncovered"], ["d"])),
        ([1, 0, 0, 0], 0.9, (["uncovered", "detached"], ["b", "c", "d"])),
        ([1, 1, 1, 1], 0.2, (["detached"], [])),
        ([1, 1, 1, 1], None, ([], [])),
        ([], 0.9, ([], [])),
    ],
)
def test_what_the_source_shows(coverage, explained, found) -> None:
    assert source_flags(coverage, ["a", "b", "c", "d"], explained) == found


def test_marks_need_not_be_covered_and_thresholds_can_be_changed() -> None:
    assert source_flags([1, 0, 0], ["a", ",", "."], None) == ([], [])
    assert Thresholds() == THRESHOLDS
    assert text_flags("a b c", "x y z", (3, 9), Thresholds(slack=0, longer=2)) == ["too-long"]
    assert set(text_flags("a", "", (1, 0))) <= set(FLAGS)
