from __future__ import annotations

import pytest
import torch

from regard.layers import masks
from regard.layers.attention import Attend
from regard.layers.masks import Causal, Everything, Lowered, Mask, Prefix, Window, lower, lower_cross
from regard.layout import Layout


def test_a_lowered_mask_allows_what_its_words_say(mask, layouts, words):
    sees, tokens_of = words
    q, k = layouts
    lowered = lower(mask, q, k)
    dense = lowered.dense(q.length, k.length, torch.device("cpu"))
    got = torch.ones(2, 1, q.length, k.length, dtype=torch.bool) if dense is None else dense
    want = [
        [[two[1] >= 0 and one[1] == two[1] and sees(mask, one, two) for two in row_k] for one in row_q]
        for row_q, row_k in zip(tokens_of(q, 2), tokens_of(k, 2), strict=True)
    ]
    assert torch.equal(got.expand(2, 1, q.length, k.length)[:, 0], torch.tensor(want))
    absent = torch.zeros(2, k.length, dtype=torch.bool) if lowered.absent is None else lowered.absent
    assert torch.equal(absent, ~k.real.expand(2, -1))


def test_every_mask_is_tried(every_mask):
    def inside(mask: Mask) -> set[type]:
        return {type(mask)}.union(*(inside(m) for m in vars(mask).values() if isinstance(m, Mask)))

    known = {kind for kind in vars(masks).values() if isinstance(kind, type) and issubclass(kind, Mask)} - {Mask}
    assert set().union(*(inside(mask) for mask in every_mask)) == known


def test_masks_are_values():
    assert Causal() & Window(3) == Causal() & Window(3)
    assert hash(~Causal() | Prefix()) == hash(~Causal() | Prefix())
    assert Causal() & Window(3) != Causal() & Window(4)


def test_whole_layouts_need_no_table():
    whole = Layout.unpadded(5)
    for lowered, causal in (
        (lower(Everything(), whole, whole), False),
        (lower(Causal(), whole, whole), True),
        (lower(Causal(), whole.next(), whole.then(whole.next())), False),
        (lower_cross(Layout.padded([2, 1]), whole), False),
    ):
        assert (lowered.allowed, lowered.causal, lowered.absent) == (None, causal, None)


def test_a_mask_that_reads_marks_says_that_there_are_none():
    with pytest.raises(ValueError, match="mark"):
        lower(Prefix(), Layout.unpadded(3), Layout.unpadded(3))


def test_s_mask_05_queries_stand_at_the_end_of_their_keys():
    """S-MASK-05: 3 new tokens onto 5 cached see 6, 7 and 8 keys, in a whole layout and in a padded one."""
    for past in (Layout.unpadded(5), Layout.padded([5, 4], left=True)):
        new = past.next(3)
        allowed = lower(Causal(), new, past.then(new)).dense(3, 8, torch.device("cpu"))
        assert allowed[0, 0].sum(-1).tolist() == [6, 7, 8]


def test_s_mask_02_one_rule_for_all_heads_or_one_for_each():
    """S-MASK-02: batch 1, 2 heads, length 5, key 4 is padding; the causal rule as one table and as a table a head."""
    layout = Layout.padded([4], 5)
    one = lower(Causal(), layout, layout)
    each = Lowered(one.allowed.expand(1, 2, 5, 5), absent=one.absent)
    q, k, v = torch.randn(3, 1, 2, 5, 4)
    attend = Attend(0.5)
    assert torch.equal(attend(q, k, v, one), attend(q, k, v, each))
    weights = attend.explain(q, k, each)
    torch.testing.assert_close(weights[:, :, :4].sum(-1), torch.ones(1, 2, 4))
    for i in range(4):
        assert (weights[0, :, i] > 0).sum(-1).tolist() == [i + 1, i + 1]


@pytest.mark.parametrize("rows", [4, 3])
def test_s_mask_11_padding_is_a_matter_of_keys(rows):
    """S-MASK-11: batch 4, length 4, the last key of sample 0 is padding; then batch 3."""
    layout = Layout.padded([3, 4, 4, 4][:rows])
    q, k, v = torch.randn(3, rows, 2, 4, 4, dtype=torch.float64)
    attend, mask = Attend(0.5), lower(Everything(), layout, layout)
    weights, result = attend.explain(q, k, mask), attend(q, k, v, mask)
    assert (weights[0, :, :, 3] == 0).all()
    assert (weights[1:] > 0).all()
    for row, count in enumerate([3, 4, 4, 4][:rows]):
        alone = attend(q[row : row + 1, :, :count], k[row : row + 1, :, :count], v[row : row + 1, :, :count], Lowered())
        torch.testing.assert_close(result[row, :, :count], alone[0], rtol=0, atol=1e-12)


def test_a_memory_of_several_documents_keeps_them_apart():
    q, memory = Layout.packed([[2, 1], [3]], 4), Layout.packed([[1, 3], [2]], 5)
    allowed = lower_cross(q, memory).allowed[:, 0].int().tolist()
    assert allowed[0] == [[1, 0, 0, 0, 0]] * 2 + [[0, 1, 1, 1, 0], [0, 0, 0, 0, 0]]
    assert allowed[1] == [[1, 1, 0, 0, 0]] * 3 + [[0, 0, 0, 0, 0]]
    assert lower_cross(q, Layout.padded([5, 2])).allowed.shape == (2, 1, 1, 5)
