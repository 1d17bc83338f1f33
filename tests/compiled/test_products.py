"""Products in compiled code beside PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

pytest.importorskip("numba")

import numba

from regard.compiled.kernels import Floats
from regard.compiled.products import PANEL, filled, linear, packed, tile


def drawn(*shape: int) -> Floats:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 6, 11, 13])
@pytest.mark.parametrize("outputs", [1, 15, 16, 40, 64, 67])
@pytest.mark.parametrize("inputs", [1, 7, 40])
def test_a_product_of_any_shape(rows: int, outputs: int, inputs: int) -> None:
    x, weight, bias = drawn(rows + 2, inputs), drawn(outputs, inputs), drawn(outputs)
    y = np.full((rows + 2, outputs), 7.0, np.float32)
    linear(x, rows, packed(weight), filled(bias), y)
    torch.testing.assert_close(torch.from_numpy(y[:rows]), F.linear(*map(torch.from_numpy, (x[:rows], weight, bias))))
    assert (y[rows:] == 7.0).all(), "rows that were not asked for stay as they were"


def test_columns_that_a_weight_does_not_read_are_left_out() -> None:
    x, weight, y = drawn(7, 12), drawn(5, 9), np.empty((7, 5), np.float32)
    x[:, 9:] = np.nan
    linear(x, 7, packed(weight), filled(np.zeros(5, np.float32)), y)
    torch.testing.assert_close(torch.from_numpy(y), torch.from_numpy(x[:, :9] @ weight.T))


def test_nothing_is_lost_where_a_number_is_none() -> None:
    x, weight = drawn(3, 5), drawn(20, 5)
    x[1, 2], weight[7, 4], y = np.nan, np.inf, np.empty((3, 20), np.float32)
    linear(x, 3, packed(weight), filled(np.zeros(20, np.float32)), y)
    assert np.isnan(y[1]).all()
    assert np.isinf(y[[0, 2], 7]).all()
    assert np.isfinite(np.delete(y[[0, 2]], 7, 1)).all()


def test_weights_are_packed_output_beside_output() -> None:
    weight = drawn(2, 20, 3)
    made = packed(weight)
    assert made.shape == (2, 2, 3, PANEL)
    assert (made[1, 0, 2] == weight[1, :PANEL, 2]).all()
    assert not made[:, 1, :, 4:].any()
    assert filled(weight[:, :, 0]).shape == (2, 2 * PANEL)


def test_a_tile_takes_whole_arrays_alone() -> None:
    """It looks at no strides."""

    @numba.njit
    def asked(x: Floats) -> None:
        tile(1, 1, x, x, x, x, (0, 0, 0, 0))

    with pytest.raises(numba.core.errors.TypingError):
        asked(np.zeros((4, 4), np.float32).T)
