"""Mixtures of experts: two bodies that agree, routing and balance as in transformers' Mixtral, load that can be read."""

from __future__ import annotations

import pytest
import torch

from regard.layers.experts import Experts, counted, expert_load
from regard.layers.feedforward import Gated
from regard.layers.frame import Frame
from regard.layers.kernels import fast_grouped_linear, grouped_linear, slow_grouped_linear
from regard.layout import Layout

WIDTH, INNER = 16, 8


def made(count: int = 5, active: int = 2, dtype: torch.dtype = torch.float64, **more):
    """A seeded layer of experts."""
    torch.manual_seed(2)
    return Experts(Gated(INNER), count, active, **more).build(WIDTH).to(dtype)


def gradients(layer, x, body):
    """What a body gives, and the gradients of its input, its weights and the router's."""
    x = x.detach().requires_grad_()
    chosen, share = layer.choose(layer.router(x))
    y = body(x, chosen, share)
    return y, *torch.autograd.grad((y * torch.linspace(0, 1, y.numel()).view_as(y)).sum(), [x, *layer.parameters()])


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize(("count", "active"), [(5, 2), (4, 1), (3, 3), (40, 2)])
def test_both_bodies_agree_forward_and_backward(count, active, dtype, near):
    """Also where some experts have no token (40 experts for 11 tokens of 2)."""
    layer = made(count, active, dtype)
    x = torch.randn(11, WIDTH, dtype=dtype)
    for a, b in zip(gradients(layer, x, layer.slow), gradients(layer, x, layer.fast)):
        torch.testing.assert_close(a, b, rtol=0, atol=near)
        assert a.abs().sum() > 0


def test_each_token_gets_the_best_experts_with_shares_of_one():
    layer = made()
    x = torch.randn(7, WIDTH, dtype=torch.float64)
    logits = layer.router(x)
    chosen, share = layer.choose(logits)
    torch.testing.assert_close(share.sum(-1), torch.ones(7, dtype=torch.float64))
    torch.testing.assert_close(share, logits.gather(1, chosen).softmax(-1))  # softmax of the chosen is the same
    want = torch.zeros_like(x)
    for token in range(7):
        for expert, weight in zip(chosen[token].tolist(), share[token]):
            gate, value = (layer.expand[expert] @ x[token]).chunk(2)
            want[token] += weight * (layer.contract[expert] @ (torch.nn.functional.silu(gate) * value))
    torch.testing.assert_close(layer(x[None])[0], want)


def test_one_expert_that_serves_all_is_the_dense_layer():
    layer, dense = made(1, 1), Gated(INNER).build(WIDTH).double()
    with torch.no_grad():
        dense.expand.weight.copy_(layer.expand[0])
        dense.contract.weight.copy_(layer.contract[0])
    x = torch.randn(2, 3, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(layer(x), dense(x))


def test_imbalance_is_the_reference_s_of_each_layer_with_and_without_padding():
    reference = pytest.importorskip("transformers.models.mixtral.modeling_mixtral").load_balancing_loss_func
    layer = made(imbalance=0.02)
    routed = [torch.randn(3, 6, 5) for _ in range(4)]
    for layout in (Layout.unpadded(6), Layout.padded([6, 4, 1]), Layout.padded([2, 6, 3], left=True)):
        real = layout.real.expand(3, 6)
        each = [reference((logits.flatten(0, 1),), 5, 2, real.long()) for logits in routed]
        torch.testing.assert_close(layer.imbalance(routed, layout), 0.02 * sum(each) / 4 * real.sum())
    even = layer.imbalance([torch.eye(5).repeat(1, 6, 1)], Layout.unpadded(30))
    assert even < layer.imbalance([torch.eye(5)[:1].expand(1, 30, 5)], Layout.unpadded(30))


def test_layers_that_lean_to_different_experts_do_not_make_each_other_even():
    """The reference's own sum over all layers is as low as that of even use."""
    layer, layout = made(2, 1, imbalance=1.0), Layout.unpadded(8)
    one, other = torch.tensor([4.0, -4.0]).expand(1, 8, 2), torch.tensor([-4.0, 4.0]).expand(1, 8, 2)
    assert layer.imbalance([one, other], layout) > 1.9 * layer.imbalance([torch.zeros(1, 8, 2)] * 2, layout)
    function = pytest.importorskip("transformers.models.mixtral.modeling_mixtral").load_balancing_loss_func
    assert function((one[0], other[0]), 2, 1) < 1.01


def test_imbalance_teaches_the_router():
    layer = made(imbalance=1.0, dtype=torch.float32)
    x, layout = torch.randn(8, 16, WIDTH) + 1.0, Layout.unpadded(16)
    optimizer = torch.optim.Adam([layer.router.weight], 0.05)
    seen = []
    for _ in range(40):
        loss = layer.imbalance([layer.router(x)], layout) / 128
        seen.append(float(loss.detach()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert seen[-1] < seen[0] - 0.1
    assert seen[-1] == pytest.approx(2.0, abs=0.1)  # even use: the number of active experts


def test_load_is_counted_over_real_tokens_of_each_layer():
    model = torch.nn.ModuleList([made(4, 1), made(4, 1)])
    with torch.no_grad():
        for number, layer in enumerate(model):
            layer.router.weight.zero_()
            layer.router.weight[number + 1, 0] = 1.0
    x = torch.ones(2, 3, WIDTH, dtype=torch.float64)
    layout = Layout.padded([3, 1])
    with expert_load(model) as load:
        for _ in range(2):
            frame = Frame(layout)
            for layer in model:
                layer(x, frame)
    assert load.counts is not None
    assert load.counts.tolist() == [[0, 8, 0, 0], [0, 0, 8, 0]]
    assert load.shares().sum(-1).tolist() == [1.0, 1.0]
    model[0](x, Frame(layout))
    assert load.counts.sum() == 16
    with expert_load(model) as empty, pytest.raises(ValueError, match="no experts were used"):
        empty.shares()


def test_counted_counts_the_best():
    logits = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 6.0]])
    assert counted(logits, 2).tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 2, "active": 3}, "active must lie between 1 and the 2 experts"),
        ({"expert": Gated(4, bias=True)}, "no biases"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Experts(**({"expert": Gated(4)} | arguments)).build(8)


@pytest.mark.skipif(not hasattr(torch.nn.functional, "grouped_mm"), reason="this torch has no grouped product")
def test_the_grouped_product_equals_the_loop_forward_and_backward():
    """The body for GPUs, here on the CPU; one expert has no row."""
    torch.manual_seed(3)
    counts = torch.tensor([3, 0, 6, 2])
    x, weight = torch.randn(11, 16, requires_grad=True), torch.randn(4, 8, 16, requires_grad=True)
    seen = []
    for body in (slow_grouped_linear, fast_grouped_linear, grouped_linear):
        y = body(x, weight, counts)
        seen.append((y, *torch.autograd.grad((y * torch.arange(88.0).view(11, 8)).sum(), [x, weight])))
    for a, b, c in zip(*seen):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-4)
        assert torch.equal(c, a)
    torch.testing.assert_close(seen[0][0][3], x[3] @ weight[2].T)
