from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.layers.attention import Attend, Attention, ScaledDot, weights_of
from regard.layers.frame import Frame
from regard.layers.masks import Causal, Everything, Lowered, lower
from regard.layers.scores import Additive
from regard.layers.state import Cache, Memory
from regard.layout import Layout


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize(("groups", "biased"), [(4, True), (2, False)])
def test_attend_is_its_definition(mask, layouts, groups, biased, definition):
    q_layout, k_layout = layouts
    q, k, v = random(2, 4, q_layout.length, 3), random(2, groups, k_layout.length, 3), random(2, groups, k_layout.length, 5)
    bias = random(2, 4, q_layout.length, k_layout.length) if biased else None
    weights, result = definition(q, k, v, 0.7, mask, q_layout, k_layout, bias)
    attend, lowered = Attend(0.7), lower(mask, q_layout, k_layout)
    torch.testing.assert_close(attend.explain(q, k, lowered, bias), torch.from_numpy(weights), rtol=0, atol=1e-12)
    torch.testing.assert_close(attend(q, k, v, lowered, bias), torch.from_numpy(result), rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", [4, 2])
def test_attention_drops_weights_and_scales_the_rest(groups):
    """On average over many draws the weights are those without dropout; those of one draw are zero or 1/(1-p) of them."""
    torch.manual_seed(0)
    q, k, mask = random(1, 4, 6, 3), random(1, groups, 6, 3), lower(Causal(), Layout.unpadded(6), Layout.unpadded(6))
    attend, v = Attend(0.7, 0.25), torch.eye(6, dtype=torch.float64).expand(1, groups, 6, 6)
    weights = attend.explain(q, k, mask)
    draws = torch.stack([attend(q, k, v, mask) for _ in range(4000)])
    kept = draws != 0
    torch.testing.assert_close(draws[kept], (weights / 0.75).expand_as(draws)[kept])
    torch.testing.assert_close(draws.mean(0), weights, rtol=0, atol=0.05)
    torch.testing.assert_close(attend.eval()(q, k, v, mask), weights)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_s_mask_01_a_query_that_sees_nothing(dtype):
    """S-MASK-01: causal, length 4, the first 2 positions are padding, loss on positions 2 and 3."""
    torch.manual_seed(0)
    module = Attention(2, mask=Causal()).build(8).to(dtype)
    layout, x = Layout.padded([2], 4, left=True), torch.randn(1, 4, 8).to(dtype).requires_grad_()
    frame = Frame.of([Causal()], layout, layout)
    y = module(x, frame)
    y[:, 2:].square().sum().backward()
    assert y.isfinite().all()
    assert all(weight.grad.isfinite().all() for weight in module.parameters())
    assert x.grad.isfinite().all()
    q, k, v = torch.randn(3, 1, 2, 4, 4).to(dtype)
    assert (module.attend.explain(q, k, frame.masks[Causal()])[:, :, :2] == 0).all()
    assert (module.attend(q, k, v, frame.masks[Causal()])[:, :, :2] == 0).all()
    if dtype == torch.float32:
        short = Layout.unpadded(2)
        alone = module(x[:, 2:], Frame.of([Causal()], short, short))
        torch.testing.assert_close(y[:, 2:], alone, rtol=0, atol=1e-6)


def test_s_mask_03_a_closed_head_is_the_same_looked_at_or_not():
    """S-MASK-03: 3 heads, head 0 closed for every query."""
    allowed = torch.ones(1, 3, 4, 4, dtype=torch.bool)
    allowed[:, 0] = False
    q, k, v = torch.randn(3, 1, 3, 4, 5)
    attend, mask = Attend(0.4), Lowered(allowed)
    weights, result = attend.explain(q, k, mask), attend(q, k, v, mask)
    assert (weights[:, 0] == 0).all()
    torch.testing.assert_close(weights @ v, result, rtol=0, atol=1e-6)


def test_s_mask_04_causal_and_padding_together():
    """S-MASK-04: lengths 5 and 3 in one causal batch equal each alone."""
    torch.manual_seed(0)
    module = Attention(2, mask=Causal()).build(8)
    layout, x = Layout.padded([5, 3]), torch.randn(2, 5, 8)
    y = module(x, Frame.of([Causal()], layout, layout))
    for row, count in enumerate([5, 3]):
        short = Layout.unpadded(count)
        alone = module(x[row : row + 1, :count], Frame.of([Causal()], short, short))
        torch.testing.assert_close(y[row, :count], alone[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("body", ["explain", "forward"])
def test_s_mask_07_a_masked_key_has_no_weight_however_it_scores(body):
    """S-MASK-07: the allowed key has score -20000, the masked one 5."""
    attend, mask = Attend(1.0), Lowered(torch.tensor([[[[True, False]]]]))
    q, k, v = torch.ones(1, 1, 1, 1), torch.tensor([[[[-20000.0], [5.0]]]]), torch.eye(2)[None, None]
    weights = attend.explain(q, k, mask) if body == "explain" else attend(q, k, v, mask)
    assert weights[0, 0, 0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("queries", [5, 2])
def test_s_mask_08_nan_at_padding_stays_there(queries):
    """S-MASK-08: 3 real and 2 padded positions whose keys and values are NaN, then 0; with gradients."""
    k_layout = Layout.padded([3], 5)
    q_layout = k_layout if queries == 5 else Layout.unpadded(2, 1)
    q, k, v = torch.randn(3, 1, 2, 5, 4)
    q, results = q[:, :, :queries].clone().requires_grad_(), []
    for filler in (float("nan"), 0.0):
        k[:, :, 3:], v[:, :, 3:], q.grad = filler, filler, None
        for mask in (Everything(), Causal()):
            lowered = lower(mask, q_layout, k_layout)
            result = Attend(0.5)(q, k, v, lowered)
            result.sum().backward()
            results.append((result.detach(), Attend(0.5).explain(q, k, lowered).detach(), q.grad.clone()))
    for got, want in zip(results[:2], results[2:], strict=True):
        for one, other in zip(got, want, strict=True):
            assert one.isfinite().all()
            assert torch.equal(one, other)


def test_weights_of_nothing_are_zero_with_zero_gradients():
    scores = torch.randn(1, 1, 2, 3, requires_grad=True)
    weights = weights_of(scores, torch.tensor([[[[True, True, False], [False, False, False]]]]))
    weights.square().sum().backward()
    assert weights[0, 0, 1].tolist() == [0, 0, 0]
    assert scores.grad[0, 0, 1].tolist() == [0, 0, 0]
    assert scores.grad[0, 0, 0, :2].abs().min() > 0


def test_multi_head_attention_equals_torch():
    torch.manual_seed(0)
    module = Attention(4).build(12).double()
    other = nn.MultiheadAttention(12, 4, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        module.qkv.bias.normal_()
        other.in_proj_weight.copy_(module.qkv.weight)
        other.in_proj_bias.copy_(module.qkv.bias)
        other.out_proj.weight.copy_(module.output.weight)
        other.out_proj.bias.copy_(module.output.bias)
    x, layout = random(3, 5, 12), Layout.padded([5, 2, 4])
    got = module(x, Frame.of([Everything()], layout, layout))
    want, _ = other(x, x, x, key_padding_mask=~layout.real, need_weights=False)
    torch.testing.assert_close(got[layout.real], want[layout.real], rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", [None, 2, 1])
def test_cross_attention_gives_beams_what_copies_of_the_memory_give(groups):
    module = Attention(4, groups, cross=True).build(8).double()
    memory, layout = random(2, 5, 8), Layout.padded([5, 3])
    x = random(6, 3, 8)
    frame = Frame.of([], Layout.unpadded(3), Layout.unpadded(3), layout)
    folded = module(x, frame, Cache(3, module.keys_values(memory)), Memory(memory, layout))
    rows = torch.tensor([0, 0, 0, 1, 1, 1])
    copies = Frame.of([], Layout.unpadded(3), Layout.unpadded(3), layout.take(rows))
    want = module(x, copies, None, Memory(memory[rows], layout.take(rows)))
    torch.testing.assert_close(folded, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("groups", [None, 1])
def test_packed_equals_padded(groups):
    module = Attention(2, groups, mask=Causal()).build(8).double()
    packed, padded = Layout.packed([[3, 2]]), Layout.padded([3, 2])
    x = random(1, 5, 8)
    rows = torch.zeros(2, 3, 8, dtype=torch.float64)
    rows[0], rows[1, :2] = x[0, :3], x[0, 3:]
    got = module(x, Frame.of([Causal()], packed, packed))[0]
    want = module(rows, Frame.of([Causal()], padded, padded))
    torch.testing.assert_close(got, torch.cat([want[0], want[1, :2]]), rtol=0, atol=1e-12)


def test_other_scores_fit_the_same_seam():
    module = Attention(2, 1, mask=Causal(), attend=Additive()).build(8).double()
    layout, x = Layout.unpadded(4), random(1, 4, 8)
    whole = module(x, Frame.of([Causal()], layout, layout))
    first = module(x[:, :2], Frame.of([Causal()], layout.first(2), layout.first(2)))
    torch.testing.assert_close(whole[:, :2], first, rtol=0, atol=1e-12)


def test_dropout_falls_on_weights_in_training_alone():
    module = ScaledDot().build(4, 0.5)
    q, k, v = torch.randn(3, 1, 2, 6, 4)
    assert not torch.equal(module(q, k, v, Lowered()), module(q, k, v, Lowered()))
    module.eval()
    assert torch.equal(module(q, k, v, Lowered()), module(q, k, v, Lowered()))
    assert ScaledDot(0.3).build(4, 0.0).scale == 0.3
    assert module.scale == 0.5


@pytest.mark.parametrize("its", [Attention(3), Attention(4, 3)])
def test_sizes_that_do_not_fit_are_refused(its):
    with pytest.raises(ValueError, match="multiple"):
        its.build(8)


@pytest.mark.parametrize("num_kv_heads", [0, 3, -1])
def test_heads_of_keys_that_do_not_go_round(num_kv_heads: int) -> None:
    """None alone stands for as many as there are heads of queries: a folder that says 0 is refused."""
    with pytest.raises(ValueError, match=f"num_heads 4 is not a multiple of num_kv_heads {num_kv_heads}"):
        Attention(num_heads=4, num_kv_heads=num_kv_heads).build(8)
