"""Attention in blocks against attention in full with the same mask."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from regard.layers import sparse
from regard.layers.attention import Attend, Attention
from regard.layers.frame import Frame
from regard.layers.masks import Blocks, Causal, Global, Lowered, Marked, Prefix, Random, Window, lower
from regard.layout import Layout

MASKS = [
    Window(3),
    Causal() & Window(5),
    Window(2) | Global(1),
    Causal() & (Window(2) | Global(2)),
    Window(2) | Marked(),
    Causal() & Window(3) | Prefix(),
    Blocks(4) | Random(4, 2, among=6) | Global(2),
    Causal() & (Blocks(3) | Random(3, 1, among=8, seed=5)),
    Window(4) & ~Window(2),
    Causal(),
]
LENGTHS = [(4, 8), (4, 9), (16, 16), (16, 17), (16, 18), (4, 23)]
"""Sizes of blocks and lengths: S-MASK-06, and one more."""


def layouts(length: int) -> dict[str, Layout]:
    """Two rows each."""
    most, few = length, max(1, length // 3)
    packed = [[few, length - few - 1], [length - few, few]]
    made = {
        "whole": Layout.unpadded(length),
        "right": Layout.padded([most, few], length),
        "left": Layout.padded([few, most], length, left=True),
        "packed": Layout.packed(packed, length),
    }
    marks = torch.zeros(2, length, dtype=torch.long)
    marks[0, [1, length // 2]], marks[1, -1] = 1, 1
    return {name: replace(layout, mark=marks) for name, layout in made.items()}


def tensors(length: int, heads: int = 4, shared: int = 2, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)
    shapes = [(2, heads, length, 6), (2, shared, length, 6), (2, shared, length, 6)]
    return [torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes]


def full(mask: Lowered) -> Lowered:
    return Lowered(mask.blocked.dense(), absent=mask.absent)


def results(mask: Lowered, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> list[Tensor]:
    """What attention gives, and the gradients of a loss that is different in every place."""
    y = Attend(0.4)(q, k, v, mask, bias)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(3), dtype=y.dtype)
    return [y, *torch.autograd.grad((y * weights).sum(), [t for t in (q, k, v, bias) if t is not None])]


@pytest.mark.parametrize(("size", "length"), LENGTHS)
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_s_mask_06_blocks_equal_the_whole_at_any_length(mask, size, length):
    """S-MASK-06: output and gradients, whole, padded on either side and packed; grouped heads."""
    for name, layout in layouts(length).items():
        lowered = lower(mask, layout, layout, size)
        assert lowered.blocked is not None
        given = tensors(length)
        for got, want in zip(results(lowered, *given), results(full(lowered), *given), strict=True):
            assert got.isfinite().all(), name
            torch.testing.assert_close(got, want, rtol=0, atol=1e-5, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize(("size", "length"), LENGTHS)
def test_s_mask_06_with_an_added_bias(size, length):
    """S-MASK-06: a bias is a full table already; with one the same mask gives the same, forward and backward."""
    layout = layouts(length)["left"]
    lowered = lower(Causal() & Window(3), layout, layout, size)
    given = [*tensors(length), torch.randn(2, 4, length, length).requires_grad_()]
    for got, want in zip(results(lowered, *given), results(full(lowered), *given), strict=True):
        assert got.isfinite().all()
        torch.testing.assert_close(got, want, rtol=0, atol=1e-5)


def test_gradients_are_those_of_finite_differences():
    layout = layouts(9)["packed"]
    mask = lower(Window(2) | Marked(), layout, layout, 4).blocked
    given = [t[:, :1].detach().requires_grad_() for t in tensors(9, 1, 1, torch.float64)]
    assert torch.autograd.gradcheck(lambda q, k, v: sparse.sparse_attention(q, k, v, mask, 0.4), given)


def test_scores_in_many_pieces_are_the_same():
    layout = layouts(23)["right"]
    lowered, given = lower(Window(3) | Global(1), layout, layout, 4), tensors(23)
    want = results(lowered, *given)
    with patch.object(sparse, "ALIVE", 1):
        for a, b in zip(results(lowered, *given), want, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


def test_the_whole_table_of_scores_never_exists():
    """No tensor of as many numbers as Q × K is made, forward or backward."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            made = out if isinstance(out, (tuple, list)) else [out]
            self.seen = max([self.seen, *(t.numel() for t in made if isinstance(t, Tensor))])
            return out

    length, most = 2048, Largest()
    with patch.object(sparse, "ALIVE", 1 << 14), most:
        layout = Layout.padded([length - 5], length)
        lowered = lower(Window(17) | Global(2), layout, layout)
        q, k, v = (torch.randn(1, 1, length, 4, requires_grad=True) for _ in range(3))
        Attend(0.5)(q, k, v, lowered).sum().backward()
    assert lowered.blocked is not None
    assert 0 < most.seen < length * length / 8


def test_blocks_are_chosen_only_where_they_save_work():
    long, short = Layout.unpadded(1024), Layout.unpadded(100)
    assert lower(Window(30), long, long).blocked is not None
    assert lower(Window(600), long, long).blocked is None
    assert lower(Window(30), short, short).blocked is None
    assert lower(Causal(), long, long).causal
    assert lower(~Window(30), long, long).blocked is None
    assert lower(Window(30), long.next(), long.then(long.next())).blocked is None


def test_a_layer_takes_the_blocks_of_its_mask():
    """Long enough, attention with a window goes through blocks; its result and the weights shown are those of the rule."""
    torch.manual_seed(1)
    mask, layout = Causal() & Window(9), Layout.padded([500, 333], left=True)
    module, x = Attention(2, 1, mask=mask).build(8), torch.randn(2, 500, 8)
    frame = Frame.of([mask], layout, layout)
    lowered = frame.masks[mask]
    assert lowered.blocked is not None
    got = module(x, frame)
    dense = replace(lowered, blocked=None, allowed=lowered.blocked.dense())
    torch.testing.assert_close(got, module(x, replace(frame, masks={mask: dense})), rtol=0, atol=1e-5)
    weights = module.attend.explain(torch.randn(2, 2, 500, 4), torch.randn(2, 1, 500, 4), lowered)
    assert ((weights[0] > 0).sum(-1) == torch.arange(1, 501).clamp(max=9)).all()


def test_dropout_falls_on_weights_and_backward_drops_the_same():
    layout = Layout.unpadded(12)
    mask, (q, k, _) = lower(Window(4), layout, layout, 4).blocked, tensors(12, 2, 2)
    v = torch.eye(12)[None, None].expand(2, 2, -1, -1).clone().requires_grad_()
    y = sparse.sparse_attention(q, k, v, mask, 0.4, dropout=0.5)  # the weights themselves
    weights = sparse.sparse_attention(q, k, v, mask, 0.4)
    dropped = y == 0
    torch.testing.assert_close(y[~dropped], 2 * weights[~dropped])
    assert 0.3 < dropped[weights > 0].float().mean() < 0.7
    (grad,) = torch.autograd.grad(y.sum(), v)
    torch.testing.assert_close(grad[..., 0], y.sum(2).detach())


def test_what_is_stored_at_padding_reaches_nothing():
    layout = Layout.padded([9, 4], 12)
    lowered, (q, k, v) = lower(Window(3) | Global(1), layout, layout, 4), tensors(12)
    absent = ~layout.real[:, None, :, None]
    broken = Attend(0.4)(q, k.masked_fill(absent, torch.nan), v.masked_fill(absent, torch.nan), lowered)
    assert torch.equal(broken, Attend(0.4)(q, k.masked_fill(absent, 0.0), v.masked_fill(absent, 0.0), lowered))


def test_bfloat16_is_near_and_finite():
    layout = layouts(23)["left"]
    lowered = lower(Causal() & Window(5), layout, layout, 4)
    given = [t.detach().bfloat16().requires_grad_() for t in tensors(23)]
    wide = [t.detach().float().requires_grad_() for t in given]
    for got, want in zip(results(lowered, *given), results(full(lowered), *wide), strict=True):
        assert got.dtype == torch.bfloat16
        torch.testing.assert_close(got.float(), want, rtol=0.05, atol=0.05)
