from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.layers.attention import Attention
from regard.layers.block import Block, decoding
from regard.layers.feedforward import Dense, Gated
from regard.layers.frame import Frame
from regard.layers.masks import Causal
from regard.layers.state import Memory
from regard.layout import Layout

LAYOUT, MEMORY = Layout.padded([4, 2]), Layout.padded([3, 5])
FRAME = Frame.of([Causal()], LAYOUT, LAYOUT, MEMORY)


@pytest.mark.parametrize("crossed", [False, True])
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_sub_layers_stand_as_published(placement, crossed):
    """norm(x + f(x)) of Vaswani et al. 2017, or x + f(norm(x)) of Xiong et al. 2020."""
    torch.manual_seed(0)
    cross = Attention(2, cross=True) if crossed else None
    module = Block(Attention(2, mask=Causal()), Dense(8), cross, placement=placement).build(4).double()
    x, memory = torch.randn(2, 4, 4).double(), Memory(torch.randn(2, 5, 4).double(), MEMORY)
    subs = [
        (lambda y: module.attention(y, FRAME), module.attention_norm),
        (lambda y: module.cross(y, FRAME, None, memory), getattr(module, "cross_norm", None)),
        (module.feedforward, module.feedforward_norm),
    ]
    want = x
    for f, norm in subs:
        if norm is not None:
            want = norm(want + f(want)) if placement == "post" else want + f(norm(want))
    torch.testing.assert_close(module(x, FRAME, None, memory), want, rtol=0, atol=1e-12)


def test_dropout_falls_before_the_residual():
    module = Block(Attention(2), Dense(8), placement="pre", dropout=0.999).build(64)
    x = torch.randn(1, 3, 64)
    y = module(x, Frame.of([Attention(2).mask], Layout.unpadded(3), Layout.unpadded(3)))
    assert (y == x).double().mean() > 0.9
    assert not (module.eval()(x, Frame.of([Attention(2).mask], Layout.unpadded(3), Layout.unpadded(3))) == x).any()


def test_other_placements_are_refused():
    with pytest.raises(ValueError, match="'sandwich'"):
        Block(Attention(2), Dense(8), placement="sandwich").build(4)


def test_a_decoders_block_is_an_encoders_that_looks_back_and_across():
    """Three sub-layers of the same kind; heads and width may be others."""
    its = Block(Attention(2, dropout=0.1), Gated(8, "gelu"), placement="pre", dropout=0.2)
    same = replace(its, attention=Attention(2, mask=Causal(), dropout=0.1), cross=Attention(2, cross=True, dropout=0.1))
    assert decoding(its) == same
    other = decoding(its, 4, 6)
    assert (other.attention.num_heads, other.cross.num_heads, other.feedforward) == (4, 4, Gated(6, "gelu"))
    assert its.cross is None
