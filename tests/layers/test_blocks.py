from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.layers.blocks import Grid, Reach, Spots, blocked, exactly
from regard.layers.masks import Everything
from regard.layout import Layout


def test_a_bound_holds_for_every_mask(mask, layouts):
    """Nothing is allowed outside the blocks and tokens that a mask names."""
    q, k = layouts
    grid = Grid(q, k, 2)
    reach = mask.reach(grid)
    near = torch.ones(grid.shape, dtype=torch.bool) if reach.near is None else reach.near
    inside = near.repeat_interleave(2, 0).repeat_interleave(2, 1)[None, : q.length, : k.length].clone()
    if reach.asking is not None:
        inside = inside | reach.asking[:, :, None]
    if reach.seen is not None:
        inside = inside | reach.seen[:, None, :]
    assert not (exactly(mask, q, k) & ~inside).any()


def test_in_blocks_a_mask_allows_the_same(mask, layouts):
    q, k = layouts
    cut = blocked(mask, q, k, 2)
    want = exactly(mask, q, k).expand(2, -1, -1)
    got = torch.zeros(2, 2 * len(cut.chosen), 2 * (k.length + 1) // 2 * 2, dtype=torch.int)
    m = 2 * cut.chosen.shape[1]
    columns = (cut.chosen[:, :, None] * 2 + torch.arange(2)).flatten(1)
    for row, near in enumerate(cut.allowed.expand(2, -1, -1, -1)):
        for block, allowed in enumerate(near):
            for at in range(2):
                got[row, 2 * block + at].index_add_(0, columns[block], allowed[at, :m].int())
                if cut.seen is not None:
                    stand = cut.seen.columns.expand(2, -1)[row]
                    got[row, 2 * block + at].index_add_(0, stand, allowed[at, m:].int())
    got = got[:, : q.length, : k.length]
    assert got.amax() <= 1, "a key is counted twice"
    if cut.asking is not None:
        everything = cut.everything[:, 0].expand(2, -1, -1).int()
        got = cut.asking.put(got, everything, 1)
    assert torch.equal(got.bool(), want)
    assert torch.equal(cut.dense()[:, 0].expand(2, -1, -1), want)


def test_bounds_combine():
    one, other = Reach(torch.eye(2).bool()), Reach(torch.ones(2, 2).tril().bool(), seen=torch.tensor([[True, False]]))
    assert torch.equal(one.both(other).near, one.near)
    assert torch.equal(one.either(other).near, other.near)
    assert one.both(Reach()).near is one.near
    assert Reach().both(other).seen is other.seen
    assert one.either(Reach()).near is None


def test_spots_are_taken_and_put_back():
    chosen = torch.tensor([[True, False, True], [False, True, False], [False, False, False]])
    spots = Spots.of(chosen)
    assert spots.columns.tolist() == [[0, 2], [1, 3], [3, 3]]
    x = torch.arange(9.0).view(3, 3, 1)
    got = spots.take(x, 1)
    assert torch.equal(got[spots.valid], x[chosen])
    assert torch.equal(spots.put(x, -got, 1)[..., 0], torch.tensor([[0.0, 1, -2], [3, -4, 5], [6, 7, 8]]))
    assert torch.equal(spots.put(x, got, 1), x)
    layout = spots.layout(replace(Layout.padded([3, 2, 1]), mark=chosen.long()))
    assert layout.document.tolist() == [[0, 0], [0, -1], [-1, -1]]
    assert layout.position[0].tolist() == [0, 2]
    assert Spots.of(torch.zeros(2, 3, dtype=torch.bool)) is None


@pytest.mark.parametrize("length", [1, 5])
def test_a_mask_that_allows_everything_can_be_cut_too(length):
    layout = Layout.unpadded(length)
    cut = blocked(Everything(), layout, layout, 2)
    assert cut.allowed.sum() == length * length
    assert blocked(Everything(), layout, layout) is None
