"""Shapes as written in the docstrings, checked at run time: the public functions of the layers under jaxtyping."""

# ruff: noqa: F722, UP037 - shapes are no forward references
from __future__ import annotations

import pytest
import torch
from beartype import beartype
from jaxtyping import Bool, Float, Int, TypeCheckError, jaxtyped
from torch import Tensor

from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense, Gated
from regard.layers.frame import Frame
from regard.layers.heads import Classify, Embedding, MaskedToken, NextToken, Targets
from regard.layers.masks import Causal, Everything, Window
from regard.layers.norms import LayerNorm, RMSNorm
from regard.layers.positions import Buckets, Learned, NoPositions, Rotary, Sinusoidal
from regard.layers.stack import Stack
from regard.layers.state import Cache
from regard.layout import Layout

typed = jaxtyped(typechecker=beartype)
B, T, D, H, V = 2, 7, 8, 2, 11
IDS = torch.randint(1, V, (B, T), generator=torch.Generator().manual_seed(0))
RAGGED = Layout.padded([7, 4])


@typed
def same(module, x: Float[Tensor, "B T D"], *rest) -> Float[Tensor, "B T D"]:
    """A layer that keeps its vectors' shape."""
    return module(x, *rest)


@typed
def embedded(module, ids: Int[Tensor, "B T"], layout: Layout) -> Float[Tensor, "B T 8"]:
    return module(ids, layout)


@typed
def logits(module, hidden: Float[Tensor, "B T D"], layout: Layout) -> Float[Tensor, "B T 11"]:
    return module(hidden, layout).logits


@typed
def of_texts(module, hidden: Float[Tensor, "B T D"], layout: Layout) -> Float[Tensor, "B 3"]:
    return module(hidden, layout).logits


@typed
def vectors(module, hidden: Float[Tensor, "B T D"], layout: Layout) -> Float[Tensor, "B D"]:
    return module(hidden, layout).vectors


@typed
def loss(module, hidden: Float[Tensor, "B T D"], layout: Layout, ids: Int[Tensor, "..."]) -> Float[Tensor, ""]:
    return module(hidden, layout, Targets(ids)).loss_sum


@typed
def attended(
    module,
    q: Float[Tensor, "B H Q d"],
    k: Float[Tensor, "B G K d"],
    v: Float[Tensor, "B G K d"],
    mask,
) -> Float[Tensor, "B H Q d"]:
    return module(q, k, v, mask)


@typed
def turns(module, q: Layout, k: Layout) -> tuple[Float[Tensor, "R 1 T w"], Float[Tensor, "R 1 T w"]]:
    return module(q, k)[0]


@typed
def biases(module, q: Layout, k: Layout) -> Float[Tensor, "R 2 Q K"]:
    return module(q, k)[1]


@typed
def allowed(mask, q: Layout, k: Layout) -> Bool[Tensor, "R Q K"]:
    return mask.allows(q, k)


@typed
def states(encoder, ids: Int[Tensor, "B S"], layout: Layout) -> Float[Tensor, "B S 8"]:
    return encoder(ids, layout).states


def x() -> Tensor:
    return torch.randn(B, T, D)


@pytest.fixture(params=["whole", "ragged"])
def layout(request):
    return Layout.unpadded(T) if request.param == "whole" else RAGGED


@pytest.mark.parametrize("its", [Dense(12), Gated(12)])
def test_feedforward(its):
    same(its.build(D), x())


@pytest.mark.parametrize("its", [LayerNorm(), RMSNorm()])
def test_norms(its):
    same(its.build(D), x())


@pytest.mark.parametrize("its", [Sinusoidal(), Learned(9), Learned(9, 2), NoPositions()])
def test_positions_that_are_added(its, layout):
    same(its.build(D), x(), layout)
    embedded(Tokens(V, its, segments=2, norm=LayerNorm()).build(D), IDS, layout)


def test_positions_inside_attention(layout):
    turns(Rotary().build(H, D // H), layout, layout)
    biases(Buckets().build(H, D // H), layout, layout)


@pytest.mark.parametrize("mask", [Causal(), Window(3), Causal() & Window(3), ~Causal()])
def test_masks(mask, layout):
    allowed(mask, layout, layout)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_attention(kv_heads, layout):
    module = Attention(H, kv_heads, mask=Causal()).build(D)
    frame = Frame.of([Causal()], layout, layout)
    same(module, x(), frame)
    same(module, x(), frame, Cache(T))
    d = D // H
    attended(module.attend, torch.randn(B, H, T, d), *torch.randn(2, B, kv_heads, T, d), frame.masks[Causal()])


@pytest.mark.parametrize("placement", ["pre", "post"])
def test_blocks_and_stacks(placement, layout):
    block = Block(Attention(H), Dense(12), placement=placement)
    same(block.build(D), x(), Frame.of([Everything()], layout, layout))
    states(Stack(D, Tokens(V), (block, block), LayerNorm()).build_encoder(), IDS, layout)


def test_heads(layout):
    for its in (NextToken(V), MaskedToken(V), Classify(V, "tokens")):
        logits(its.build(D), x(), layout)
        loss(its.build(D), x(), layout, IDS)
    for pool in ("first", "last", "mean"):
        of_texts(Classify(3, pool, "tanh").build(D), x(), layout)
        loss(Classify(3, pool).build(D), x(), layout, torch.tensor([0, 2]))
        vectors(Embedding(pool).build(D), x(), layout)


def test_the_check_sees_a_wrong_shape():
    with pytest.raises(TypeCheckError):
        same(torch.nn.Linear(D, D + 1), x())
    with pytest.raises(TypeCheckError):
        vectors(Embedding("tokens").build(D), x(), RAGGED)
