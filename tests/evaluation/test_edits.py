"""Edit distance against a plain definition."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.evaluation.edits import edits, nearest


def by_definition(first: str, second: str) -> int:
    @cache
    def distance(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        same = first[i - 1] == second[j - 1]
        return min(distance(i - 1, j) + 1, distance(i, j - 1) + 1, distance(i - 1, j - 1) + (not same))

    return distance(len(first), len(second))


@settings(max_examples=100, deadline=None)
@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_edits_follow_the_definition(first: str, second: str) -> None:
    assert edits(first, second) == by_definition(first, second) == edits(list(second), list(first))


@pytest.mark.parametrize(("first", "second", "count"), [("kitten", "sitting", 3), ("", "abc", 3), ("", "", 0)])
def test_edits_of_known_words(first: str, second: str, count: int) -> None:
    assert edits(first, second) == count


def test_the_nearest_reference_counts_and_gives_its_length() -> None:
    assert nearest("abcd", ["xy", "abc"]) == (1, 3)
    assert nearest(["ab", "c"], [["ab"], ["ab", "c", "d"]]) == (1, 1)
