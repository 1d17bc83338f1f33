from __future__ import annotations

import pytest
import torch

from regard.layers.patches import Patches


def made(**arguments):
    torch.manual_seed(0)
    return Patches(**{"image": (224, 224), "patch": (16, 16), "channels": 3} | arguments).build(8)


def test_pos_04_other_shapes_resize_the_table_by_their_own_shape():
    """S-POS-04: a table of 14×14; an image of 224×112 uses 14×7 places and the same first row; one of 224×224 uses the
    table itself, bit for bit."""
    embed = made()
    assert embed.table.shape == (1, 14 * 14 + 1, 8)
    before = embed.table.detach().clone()
    tall = torch.randn(2, 3, 224, 112)
    assert embed.shape(tall) == (14, 7)
    assert embed.place(tall).length == 98 + 1
    assert embed(tall, embed.place(tall)).shape == (2, 99, 8)
    resized = embed.places(14, 7)
    assert torch.equal(resized[:, :1], before[:, :1])
    assert not torch.equal(resized[:, 1:], embed.places(7, 14)[:, 1:])
    assert embed.places(14, 14) is embed.table
    assert torch.equal(embed.table, before)


def test_resizing_keeps_rows_and_columns_apart():
    """A table that grows by column alone still does so after its columns are halved, and is alike in all rows."""
    embed = made(image=(64, 128))
    assert embed.grid == (4, 8)
    with torch.no_grad():
        embed.table[0, 1:] = torch.arange(8.0).repeat(4)[:, None]
    grid = embed.places(6, 4)[0, 1:].unflatten(0, (6, 4))
    torch.testing.assert_close(grid, grid[:1].expand_as(grid))
    assert (grid[0, 1:] > grid[0, :-1]).all()


def test_the_first_vector_is_the_image_s_and_patches_follow_row_by_row():
    embed = made(image=(4, 6), patch=(2, 2), channels=1)
    with torch.no_grad():
        embed.table.zero_()
        embed.project.weight.fill_(1.0)
        embed.project.bias.zero_()
    pixels = torch.arange(24.0).view(1, 1, 4, 6)
    layout = embed.place(pixels)
    assert (layout.whole, layout.length) == (True, 7)
    x = embed(pixels, layout)
    assert torch.equal(x[0, 0], embed.whole[0, 0])
    sums = [float(pixels[0, 0, r : r + 2, c : c + 2].sum()) for r in (0, 2) for c in (0, 2, 4)]
    assert x[0, 1:, 0].tolist() == sums


def test_pixels_are_taken_in_the_weights_type():
    embed = made().double()
    pixels = torch.randn(1, 3, 224, 224)
    assert embed(pixels, embed.place(pixels)).dtype == torch.float64


@pytest.mark.parametrize(
    ("shape", "words"),
    [((1, 1, 224, 224), r"shape \[1, 1, 224, 224\].*3, H, W"), ((3, 224, 224), "shape"), ((1, 3, 8, 224), "smaller than")],
)
def test_what_is_no_image_is_refused(shape, words):
    with pytest.raises(ValueError, match=words):
        made().place(torch.zeros(shape))


def test_an_image_smaller_than_a_patch_is_refused():
    with pytest.raises(ValueError, match="no patch"):
        made(image=(8, 224))
