from __future__ import annotations

import pytest
import torch

from regard.layers.embeddings import Tokens
from regard.layers.positions import Learned, Sinusoidal, sinusoids
from regard.layout import Layout


@pytest.mark.parametrize("scaled", [False, True])
def test_embeddings_are_rows_scaled_and_placed(scaled):
    module = Tokens(9, Sinusoidal(), scaled).build(4)
    ids = torch.tensor([[3, 8, 3]])
    want = module.tokens.weight[ids] * (2.0 if scaled else 1.0) + sinusoids(3, 4)
    torch.testing.assert_close(module(ids, Layout.unpadded(3)), want)


def test_dropout_falls_on_the_sum():
    module = Tokens(9, Sinusoidal(), dropout=0.5).build(64)
    y = module(torch.tensor([[3, 8, 3]]), Layout.unpadded(3))
    assert (y == 0).any()
    assert not (module.eval()(torch.tensor([[3, 8, 3]]), Layout.unpadded(3)) == 0).any()


def test_the_limit_is_the_positions():
    assert Tokens(9, Learned(5)).build(4).limit == 5
    assert Tokens(9).build(4).limit is None
