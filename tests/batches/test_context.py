"""Examples behind those before them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.batches.context import pairs_with_context, with_context
from regard.batches.data import TokenisedPairs


def rows(pairs: TokenisedPairs) -> list[tuple[list[int], list[int]]]:
    return [(a.tolist(), b.tolist()) for a, b in map(pairs.pair, range(len(pairs)))]


def corpus(lines: list[int]) -> TokenisedPairs:
    """Example n has n + 1 tokens 10 + n on one side and two tokens 50 + n on the other."""
    count = len(lines)
    return TokenisedPairs.from_ids([[10 + n] * (n + 1) for n in range(count)], [[50 + n] * 2 for n in range(count)], lines)


def test_by_hand() -> None:
    pairs = corpus([1, 2, 4, 5])
    found = pairs_with_context(pairs, 2, (7, 8), 100, vary=False)
    assert rows(found) == [
        ([10], [50, 50]),
        ([10, 7, 11, 11], [50, 50, 8, 51, 51]),
        ([12, 12, 12], [52, 52]),
        ([12, 12, 12, 7, 13, 13, 13, 13], [52, 52, 8, 53, 53]),
    ]
    assert found.lines.tolist() == [1, 2, 4, 5]
    assert found.key != pairs.key
    assert pairs_with_context(pairs, 0, (7, 8), 100, vary=True) is pairs


def test_what_does_not_fit_is_left_out() -> None:
    found = pairs_with_context(corpus([1, 2, 3, 4]), 3, (7, 8), 8, vary=False)
    assert [len(source) for source, _ in rows(found)] == [1, 4, 8, 8]
    assert rows(found)[3][0] == [12, 12, 12, 7, 13, 13, 13, 13]
    assert rows(pairs_with_context(corpus([1, 2]), 1, (7, 8), 1, vary=False)) == rows(corpus([1, 2]))


def test_now_more_now_fewer() -> None:
    pairs = corpus(list(range(1, 301)))
    found, again = (pairs_with_context(pairs, 2, (7, 8), 10**6, vary=True) for _ in range(2))
    assert rows(found) == rows(again)
    marks = np.array([target.count(8) for _, target in rows(found)])
    assert marks[:1].tolist() == [0]
    assert all(70 < (marks == n).sum() < 130 for n in range(3))
    assert len(pairs_with_context(corpus([]), 2, (7, 8), 9, vary=True)) == 0


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans()), max_size=12),
    st.integers(1, 3),
    st.integers(1, 9),
)
@settings(max_examples=150, deadline=None)
def test_against_a_slow_way(examples: list[tuple[int, int, bool]], count: int, most: int) -> None:
    lines, at = [], 0
    for _, _, gap in examples:
        at += 2 if gap else 1
        lines.append(at)
    sides = [[[100 * side + n] * one[side] for n, one in enumerate(examples)] for side in (0, 1)]
    pairs = TokenisedPairs.from_ids(sides[0], sides[1], lines)
    made = TokenisedPairs(with_context(pairs.arrays, count, (7, 8), most, vary=False), "key")
    wanted = []
    for n in range(len(lines)):
        first = n
        while first > 0 and n - first < count and lines[first - 1] == lines[first] - 1:
            first -= 1
        both = [sides[side][first : n + 1] for side in (0, 1)]
        while len(both[0]) > 1 and max(sum(map(len, one)) + len(one) - 1 for one in both) > most:
            both = [one[1:] for one in both]
        wanted.append(tuple([*one[0], *(t for row in one[1:] for t in (mark, *row))] for one, mark in zip(both, (7, 8))))
    assert rows(made) == wanted
