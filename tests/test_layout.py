from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.layout import Layout, _count


def table(layout: Layout) -> list[list[tuple[int, int]]]:
    """(position, document) of every column of every row."""
    return [list(zip(*row, strict=True)) for row in zip(layout.position.tolist(), layout.document.tolist(), strict=True)]


def test_unpadded():
    layout = Layout.unpadded(3, start=2)
    assert table(layout) == [[(2, 0), (3, 0), (4, 0)]]
    assert (layout.whole, layout.start, layout.length, layout.longest, layout.several) == (True, 2, 3, 5, False)
    assert layout.tokens(4) == 12
    assert layout.lengths(2).tolist() == [3, 3]


def test_padded_on_either_side():
    right, left = Layout.padded([3, 1], 4), Layout.padded([3, 1], 4, left=True)
    assert right.document.tolist() == [[0, 0, 0, -1], [0, -1, -1, -1]]
    assert left.document.tolist() == [[-1, 0, 0, 0], [-1, -1, -1, 0]]
    assert right.position[right.real].tolist() == left.position[left.real].tolist() == [0, 1, 2, 0]
    assert (right.whole, right.length, right.longest, right.tokens(2)) == (False, 4, 3, 4)
    assert right.lengths(2).tolist() == [3, 1]


def test_padding_of_nothing_is_none():
    assert Layout.padded([4, 4]).whole
    assert not Layout.padded([4, 4], 5).whole
    assert Layout.padded([]).length == 0
    with pytest.raises(ValueError, match="5 tokens does not fit into 4"):
        Layout.padded([5], 4)


def test_packed():
    layout = Layout.packed([[2, 1], [4]])
    assert table(layout)[0] == [(0, 0), (1, 0), (0, 1), (0, -1)]
    assert table(layout)[1] == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert (layout.whole, layout.longest, layout.several) == (False, 4, True)
    assert Layout.packed([[3], [3]]).whole
    assert not Layout.packed([[3], [2]]).several
    with pytest.raises(ValueError, match="row 1 has 5 tokens"):
        Layout.packed([[1], [2, 3]], 4)


def test_s_pos_03_padding_is_not_counted_as_positions():
    """S-POS-03: RoBERTa's rows with pad id 1; its table adds 2 to a real token's position."""
    right = Layout.of_ids(torch.tensor([[0, 50, 60, 2, 1, 1]]), 1)
    left = Layout.of_ids(torch.tensor([[1, 1, 0, 50, 2]]), 1)
    for layout, want in ((right, [2, 3, 4, 5, 1, 1]), (left, [1, 1, 2, 3, 4])):
        assert torch.where(layout.real, layout.position + 2, 1).tolist() == [want]


def test_padding_is_read_from_the_ends_of_ids():
    ids = torch.tensor([[0, 5, 0, 6, 0], [0, 0, 0, 0, 0], [7, 8, 9, 4, 3]])
    both, right = Layout.of_ids(ids, 0), Layout.of_ids(ids, 0, "right")
    assert both.real.int().tolist() == [[0, 1, 1, 1, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]
    assert right.real.int().tolist() == [[1, 1, 1, 1, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]]
    assert both.position[0, 1:4].tolist() == [0, 1, 2]
    assert Layout.of_ids(ids, None).whole
    assert Layout.of_ids(ids[2:], 0).whole
    assert Layout.of_ids(ids[:, :0], 0).length == 0
    assert ids[0, 0] == 0, "the ids themselves stay as they are"


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(0, 3), st.booleans())
def test_layouts_of_lengths_and_of_ids_agree(lengths, more, left):
    width = max(lengths) + more
    rows = [[0] * (width - n) + [9] * n if left else [9] * n + [0] * (width - n) for n in lengths]
    one, two = Layout.padded(lengths, width, left), Layout.of_ids(torch.tensor(rows), 0)
    assert one.whole == two.whole
    assert one.longest == two.longest
    assert torch.equal(one.document, two.document)
    assert torch.equal(one.position[one.real], two.position[two.real])


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(1, 3), st.integers(1, 3))
def test_the_next_tokens_go_on_where_rows_end(lengths, first, second):
    past = Layout.padded(lengths, left=True)
    new = past.next(first)
    both = past.then(new).then(new.next(second))
    want = Layout.padded([n + first + second for n in lengths], left=True)
    assert both.whole == want.whole
    assert torch.equal(both.position[both.real], want.position[want.real])
    assert torch.equal(both.real, want.real)
    assert both.longest >= int(both.position.max()) + 1


def test_then_of_nothing_and_first():
    empty, more = Layout.unpadded(0), Layout.padded([2, 3])
    assert empty.then(more) is more
    assert table(more.first(2)) == [[(0, 0), (1, 0)]] * 2
    assert Layout.unpadded(5).first(2).whole
    assert Layout.packed([[2, 1]]).first(2).several


def test_take_copies_rows_and_leaves_alike_rows_alone():
    rows, whole = torch.tensor([1, 1, 0]), Layout.unpadded(3)
    assert Layout.padded([3, 1]).take(rows).lengths(3).tolist() == [1, 1, 3]
    assert whole.take(rows) is whole
    assert Layout.packed([[2, 1], [3]]).take(rows).several


@pytest.mark.parametrize("layout", [Layout.unpadded(3), Layout.padded([3, 2]), Layout.padded([1, 3], left=True)])
def test_marks_stay_with_their_tokens(layout):
    marked = replace(layout, mark=torch.tensor([[1, 0, 0], [1, 1, 0]]))
    assert marked.take(torch.tensor([1, 0])).mark.tolist() == [[1, 1, 0], [1, 0, 0]]
    assert marked.first(2).mark.tolist() == [[1, 0], [1, 1]]
    assert marked.then(marked.next(2)).mark.tolist() == [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]
    assert marked.to("cpu").mark is not None
    assert marked.then(marked.next()).whole == layout.then(layout.next()).whole


def test_rows_of_two_layouts_stand_below_each_other_filled_up_on_the_left():
    upper, lower = Layout.unpadded(2), Layout.padded([4, 1], left=True)
    both = upper.below(3, lower, 2)
    assert (both.whole, both.length, both.longest) == (False, 4, 4)
    assert both.lengths(5).tolist() == [2, 2, 2, 4, 1]
    assert both.position[both.real].tolist() == [0, 1] * 3 + [0, 1, 2, 3, 0]
    assert both.real[:, -1].all()
    assert both.empty() == 0
    rest = both.take(torch.tensor([4, 0]))
    assert rest.empty() == 2
    assert rest.last(2).lengths(2).tolist() == [1, 2]
    assert rest.last(2).empty() == 0
    assert Layout.unpadded(3).empty() == 0
    with pytest.raises(ValueError, match="marks"):
        replace(upper, mark=torch.ones(1, 2)).below(1, lower, 2)


def test_positions_made_in_inference_serve_training_too() -> None:
    """A server classifies, then a gradient is asked for: the table of positions is one and the same."""
    _count.cache_clear()
    with torch.inference_mode():
        Layout.unpadded(3)
    table = torch.nn.Embedding(4, 2)
    table(Layout.unpadded(3).position).sum().backward()
    assert table.weight.grad is not None
