from __future__ import annotations

import math

import pytest
import torch

from regard.layers.embeddings import Tokens
from regard.layers.positions import Learned, NoPositions, Sinusoidal, sinusoids
from regard.layout import Layout


def test_sinusoids_are_the_formula():
    table = sinusoids(40, 8, interleaved=True)
    for p in (0, 1, 7, 39):
        for i in range(4):
            angle = p / 10000 ** (2 * i / 8)
            assert table[p, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[p, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_halves_are_a_permutation_of_the_paper():
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    assert torch.equal(sinusoids(16, 8), sinusoids(16, 8, interleaved=True)[:, order])
    assert sinusoids(4, 7).shape == (4, 7)


def test_sinusoids_of_the_authors_code_close_at_a_ten_thousandth():
    table = sinusoids(5, 8, first=1, closed=True)
    for row, position in enumerate(range(1, 6)):
        for i, rate in enumerate((1.0, 10000 ** (-1 / 3), 10000 ** (-2 / 3), 1e-4)):
            assert math.isclose(table[row, i], math.sin(position * rate), rel_tol=1e-5)
            assert math.isclose(table[row, 4 + i], math.cos(position * rate), abs_tol=1e-6)
    x = torch.zeros(1, 5, 8)
    assert torch.equal(Sinusoidal(first=1, closed=True).build(8)(x, Layout.unpadded(5))[0], table)


LAYOUTS = [Layout.unpadded(4), Layout.unpadded(3, 600), Layout.padded([2, 4], left=True), Layout.packed([[2, 1], [4]])]


@pytest.mark.parametrize("layout", LAYOUTS, ids=["whole", "later", "left", "packed"])
@pytest.mark.parametrize("its", [Sinusoidal(), Sinusoidal(interleaved=True), Learned(700)])
def test_a_token_gets_the_row_of_its_position(its, layout):
    module = its.build(6)
    x = torch.randn(2, layout.length, 6)
    added = module(x, layout) - x
    if isinstance(its, Learned):
        rows = module.table.weight
    else:
        rows = sinusoids(1024, 6, its.interleaved)
    position, real = layout.position.expand(2, -1), layout.real.expand(2, -1)
    torch.testing.assert_close(added[real], rows[position[real]], rtol=0, atol=1e-6)


def test_s_pos_05_left_padding_shifts_nothing():
    """S-POS-05: "c" padded on the left stands where "c" alone stands."""
    for its in (Sinusoidal(), Learned(8), NoPositions()):
        embed = Tokens(9, its, scaled=True).build(6)
        alone = embed(torch.tensor([[5]]), Layout.unpadded(1))
        batch = embed(torch.tensor([[3, 4, 5], [0, 0, 5]]), Layout.padded([3, 1], left=True))
        assert torch.equal(batch[1, 2], alone[0, 0])


def test_learned_positions_end():
    its = Learned(4)
    module = its.build(6)
    assert its.limit == 4
    assert Sinusoidal().limit is None
    module(torch.zeros(1, 2, 6), Layout.unpadded(2, 2))
    with pytest.raises(ValueError, match="5 tokens, but this model has 4 positions"):
        module(torch.zeros(1, 1, 6), Layout.unpadded(1, 4))


@pytest.mark.parametrize(("offset", "row"), [(0, 0), (2, 1)])
def test_padding_may_reach_past_the_table(offset, row):
    """A batch filled up to more columns than there are positions; padding has the row before the first, if there is one."""
    module = Learned(4, offset).build(6)
    added = module(torch.zeros(2, 9, 6), Layout.padded([4, 2], 9))
    torch.testing.assert_close(added[0, :4], module.table.weight[offset:])
    assert (added[0, 4:] == module.table.weight[row]).all()
    assert (added[1, 2:] == module.table.weight[row]).all()


def test_no_positions_change_nothing():
    x = torch.randn(1, 3, 6)
    assert NoPositions().build(6)(x, Layout.unpadded(3)) is x
    assert NoPositions().limit is None


def test_tables_are_single_precision_and_added_in_the_type_of_the_input():
    assert sinusoids(4, 6).dtype == torch.float32
    assert Sinusoidal().build(6)(torch.zeros(1, 3, 6, dtype=torch.float64), Layout.unpadded(3)).dtype == torch.float64
