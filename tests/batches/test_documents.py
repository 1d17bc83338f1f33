"""Texts in pieces, in packed rows, in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.batches.documents import Blocks, packed, pieces, rows_of
from regard.batches.objectives_language import NextToken
from regard.batches.stream import Stream


def test_long_texts_are_cut_and_nothing_is_lost() -> None:
    parts, owners = pieces([[1, 2, 3, 4, 5], [], [6]], 2)
    assert parts == [[1, 2], [3, 4], [5], [6]]
    assert owners == [0, 0, 0, 2]
    with pytest.raises(ValueError):
        pieces([[1]], 0)


@given(st.lists(st.integers(1, 20), min_size=1, max_size=60))
def test_every_document_is_in_one_row_and_no_row_is_too_full(lengths: list[int]) -> None:
    rows = packed([[0] * length for length in lengths], 20)
    assert sorted(number for row in rows for number in row) == list(range(len(lengths)))
    assert all(sum(lengths[number] for number in row) <= 20 for row in rows)
    half = [row for row in rows if sum(lengths[number] for number in row) * 2 <= 20]
    assert len(half) <= 1  # two half-empty rows would be one


def test_a_document_that_fits_nowhere_is_refused() -> None:
    assert packed([[0] * 5], 4, spare=1) == [[0]]
    with pytest.raises(ValueError, match="needs 5 columns of 4"):
        packed([[0] * 5], 4)


def test_rows_know_their_documents_and_the_line_of_the_first() -> None:
    rows = rows_of([[1, 2], [3, 4, 5, 6], [7]], [10, 20, 30], 4)
    assert [rows.pair(i)[0].tolist() for i in range(len(rows))] == [[3, 4, 5, 6], [1, 2, 7]]
    assert [rows.pair(i)[1].tolist() for i in range(len(rows))] == [[4], [2, 1]]
    assert rows.lines.tolist() == [20, 10]


def test_blocks_side_by_side_read_each_token_once() -> None:
    blocks = Blocks(np.arange(23), 5, seed=3)
    assert [blocks.plain.pair(i)[0].tolist() for i in range(4)] == [list(range(5 * i, 5 * i + 6)) for i in range(4)]
    shifts = set()
    for epoch in range(20):
        now = blocks.at(epoch)
        first = now.pair(0)[0].tolist()
        shifts.add(first[0])
        assert [now.pair(i)[0][0] for i in range(4)] == [first[0] + 5 * i for i in range(4)]
        assert now.pair(3)[0][-1] <= 22
    assert shifts == {0, 1, 2}


def test_blocks_anywhere_begin_anywhere_and_the_same_again() -> None:
    blocks = Blocks(np.arange(1000), 10, seed=3, anywhere=True)
    one, other = blocks.at(4), blocks.at(5)
    starts = [int(one.pair(i)[0][0]) for i in range(len(one))]
    assert len(one) == 99
    assert len(set(starts)) > 80
    assert starts != [int(other.pair(i)[0][0]) for i in range(99)]
    assert starts == [int(Blocks(np.arange(1000), 10, seed=3, anywhere=True).at(4).pair(i)[0][0]) for i in range(99)]
    assert all(one.pair(i)[0].tolist() == list(range(start, start + 11)) for i, start in enumerate(starts))
    assert max(Blocks(np.arange(12), 10, anywhere=True).at(e).pair(0)[0][-1] for e in range(30)) == 11


def test_a_text_shorter_than_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="fewer than a block"):
        Blocks([1, 2, 3], 3)


def test_a_stream_gives_the_blocks_of_its_epoch() -> None:
    blocks = Blocks(np.arange(1, 202), 10, seed=1, anywhere=True)
    stream = Stream(blocks, 40, seed=1, objective=NextToken(0))
    batches = [next(stream) for _ in range(5)]
    assert all(batch.inputs.shape == (4, 10) for batch in batches)
    assert all((batch.targets == batch.inputs + 1).all() for batch in batches)
    state = stream.state_dict()
    following = next(stream).inputs
    again = Stream(blocks, 40, seed=1, objective=NextToken(0))
    again.load_state_dict(state)
    assert (next(again).inputs == following).all()
