from __future__ import annotations

import math

import pytest
import torch

from regard.layers import kernels
from regard.layers.kernels import (
    CHUNK,
    Dropout,
    gelu_tanh,
    linear_cross_entropy,
    prepared_linear,
    slow_linear_cross_entropy,
)


@pytest.mark.parametrize("p", [0.1, 0.15, 0.3, 0.5, 0.999])
def test_dropout_drops_its_share_and_scales_the_rest(p):
    """The kept share within 4 sigma; what is kept is × 1/(1-p)."""
    torch.manual_seed(0)
    drop, n = Dropout(p), 200_000
    y = drop(torch.ones(n))
    kept = y != 0
    assert abs(kept.double().mean() - (1 - p)) < 4 * math.sqrt(p * (1 - p) / n) + 1 / 256
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], 1 / (1 - p)))


def test_dropout_is_exact_over_calls():
    """A byte knows 256 shares; over calls the two next to p are mixed so that each element is dropped with p exactly."""
    torch.manual_seed(0)
    p, n, calls = 0.15, 4096, 600
    drop, x = Dropout(p), torch.ones(n)
    shares = torch.stack([(drop(x) == 0).double().mean() for _ in range(calls)])
    between = (p * 256 - int(p * 256)) * (1 - p * 256 + int(p * 256)) / 256**2
    sigma = math.sqrt((p * (1 - p) / n + between) / calls)
    assert abs(shares.mean() - p) < 4 * sigma


def test_dropout_is_independent_of_place_and_call():
    torch.manual_seed(0)
    drop = Dropout(0.5)
    first, second = ((drop(torch.ones(64, 1024)) != 0).double() - 0.5 for _ in range(2))
    limit = 4 * 0.25 / math.sqrt(64 * 1024)
    assert (first * second).mean().abs() < limit
    assert (first[:, 1:] * first[:, :-1]).mean().abs() < limit
    assert (first[:, 8:] * first[:, :-8]).mean().abs() < limit


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 17), (0, 4)])
def test_the_gradient_of_dropout_is_its_mask(shape):
    torch.manual_seed(0)
    x = torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    kept = (y != 0).double() / 0.7
    torch.testing.assert_close(x.grad, kept)
    torch.testing.assert_close(y, x * kept)


def test_dropout_reads_any_strides_and_keeps_the_type():
    torch.manual_seed(0)
    x = torch.randn(6, 4).t().bfloat16()
    y = Dropout(0.5)(x)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y[y != 0], (x * 2)[y != 0])


def test_dropout_does_nothing_where_it_should_not():
    x = torch.randn(5)
    assert Dropout(0.0)(x) is x
    assert Dropout(0.5).eval()(x) is x
    with pytest.raises(ValueError, match=r"\[0, 1\)"):
        Dropout(1.0)


def test_dropout_never_reads_what_it_drops():
    torch.manual_seed(0)
    y = Dropout(0.5)(torch.full((100,), torch.inf))
    assert not y.isnan().any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_dropout_is_that_of_a_plain_mask_beyond_a_slice(dtype, monkeypatch):
    """Also of what is no number and of what has no end, in slices that end in the midst of a row."""
    monkeypatch.setattr(kernels, "SLICE", 50)
    torch.manual_seed(0)
    x = torch.randn(9, 37).to(dtype)
    x[::2, ::5], x[1::2, ::7] = torch.nan, -torch.inf
    y = Dropout(0.4)(x)
    torch.manual_seed(0)
    torch.randn(9, 37)
    draws, bound = kernels._draws(x.numel(), 0.4)
    kept = (draws < bound).view(9, 37)
    torch.testing.assert_close(y, torch.where(kept, x * (1 / 0.6), 0.0), equal_nan=True)


@pytest.mark.parametrize("turned", [False, True])
def test_dropout_of_relu_is_relu_and_dropout(turned):
    """The same draws through the one body and through two, with gradients and gradients of gradients."""
    x = torch.randn(5, 6, 7, dtype=torch.float64)
    x = (x.transpose(0, 2) if turned else x).clone().requires_grad_()
    drop, weights = Dropout(0.3), torch.randn_like(x)
    found = []
    for body in (drop.relu, lambda x: drop(x.relu())):
        torch.manual_seed(0)
        y = body(x)
        (first,) = torch.autograd.grad((y * weights).sum(), x, create_graph=True)
        torch.manual_seed(0)
        (slope,) = torch.autograd.grad((body(x * x) ** 2).sum(), x, create_graph=True)
        found.append((y, first, torch.autograd.grad(slope.sum(), x)[0]))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    assert torch.equal(drop.eval().relu(x), x.relu())


ROWS = CHUNK["cpu"] + 30


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize(("dtype", "near"), [(torch.float32, 1e-4), (torch.bfloat16, 5e-2)])
def test_linear_cross_entropy_equals_its_slow_twin(dtype, near, smoothing, bias):
    """In value and in every gradient, over more rows than a chunk has."""
    torch.manual_seed(0)
    x, weight = torch.randn(ROWS, 8).to(dtype), torch.randn(17, 8)
    ids, results = torch.randint(0, 17, (ROWS,)), []
    shift = torch.randn(17) if bias else None
    for body in (linear_cross_entropy, slow_linear_cross_entropy):
        leaves = [t.clone().requires_grad_() for t in (x, weight, shift) if t is not None]
        narrow = leaves if body is linear_cross_entropy else [t.to(dtype) for t in leaves]
        loss = body(narrow[0], narrow[1], narrow[2] if bias else None, ids, smoothing)
        (2.5 * loss).backward()
        results.append([loss.detach(), *(leaf.grad for leaf in leaves)])
    for got, want in zip(*results, strict=True):
        assert got.dtype == want.dtype
        assert (got.double() - want.double()).norm() <= near * want.double().norm()


def test_linear_cross_entropy_in_double_precision_is_exact():
    torch.manual_seed(0)
    x, weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True), torch.randn(5, 3, dtype=torch.float64)
    weight.requires_grad_()
    ids = torch.tensor([0, 4, 2, 1])
    assert torch.autograd.gradcheck(lambda a, b: linear_cross_entropy(a, b, None, ids, 0.1), (x, weight))


def test_linear_cross_entropy_of_nothing_and_of_large_logits():
    weight = torch.eye(3, requires_grad=True)
    assert linear_cross_entropy(torch.empty(0, 3), weight, None, torch.empty(0, dtype=torch.long)) == 0
    loss = linear_cross_entropy(torch.tensor([[1e4, 0.0, -1e4]]), weight, None, torch.tensor([1]))
    assert loss.item() == pytest.approx(1e4)
    with torch.no_grad():
        assert linear_cross_entropy(torch.zeros(1, 3), weight, None, torch.tensor([1])).item() == pytest.approx(math.log(3))


def test_only_wanted_gradients_are_made():
    x, weight = torch.randn(3, 4), torch.randn(5, 4, requires_grad=True)
    linear_cross_entropy(x, weight, None, torch.tensor([1, 2, 3])).backward()
    assert weight.grad.isfinite().all()
    assert x.grad is None


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 5, 70])
def test_a_prepared_weight_gives_what_the_layer_gives(rows, bias, monkeypatch):
    monkeypatch.setattr(kernels, "OUTPUTS", 64)
    torch.manual_seed(rows)
    layer, x = torch.nn.Linear(24, 64, bias), torch.randn(rows, 24)
    with torch.no_grad():
        for change in (None, lambda: layer.weight.mul_(2.0), lambda: setattr(layer.weight, "data", torch.randn(64, 24))):
            if change is not None:  # what was prepared of the old weight is not used
                change()
            for _ in range(2):
                torch.testing.assert_close(prepared_linear(x, layer), layer(x), rtol=1e-5, atol=1e-5)
    assert layer.weight in kernels._PREPARED
    assert prepared_linear(x, layer).requires_grad  # with gradients it is the layer itself


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
@pytest.mark.parametrize("fused", [True, False])
def test_a_prepared_weight_is_made_anew_after_an_update(kind, fused, monkeypatch):
    """Torch's fused optimisers change a weight without counting it in its version."""
    monkeypatch.setattr(kernels, "OUTPUTS", 64)
    layer, x = torch.nn.Linear(24, 64), torch.randn(3, 24)
    optimizer = kind(layer.parameters(), lr=0.5, fused=fused)
    for _ in range(2):
        with torch.no_grad():
            torch.testing.assert_close(prepared_linear(x, layer), layer(x), rtol=1e-5, atol=1e-5)
        layer(x).square().sum().backward()
        optimizer.step()
    with torch.no_grad():
        torch.testing.assert_close(prepared_linear(x, layer), layer(x), rtol=1e-5, atol=1e-5)


def test_what_cannot_be_prepared_is_left_to_the_layer(monkeypatch):
    monkeypatch.setattr(kernels, "OUTPUTS", 64)
    with torch.inference_mode():
        made = torch.nn.Linear(8, 64)
        for layer, x in ((torch.nn.Linear(8, 63), torch.randn(2, 8)), (made, torch.randn(2, 8))):
            assert torch.equal(prepared_linear(x, layer), layer(x))
            assert layer.weight not in kernels._PREPARED
        double = torch.nn.Linear(8, 64).double()
        assert torch.equal(prepared_linear(torch.ones(2, 8).double(), double), double(torch.ones(2, 8).double()))


def test_gelu_by_its_tanh_form_is_torchs():
    """Values and gradients, where it bends, far out on both sides, and at the ends of what a float is."""
    x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([0.0, -0.0, 1e-30, -1e-30, 1e4, -1e4, 3e38, -3e38])])
    fast, slow = x.clone().requires_grad_(), x.double().requires_grad_()
    wanted = torch.nn.functional.gelu(slow, approximate="tanh")
    y = gelu_tanh(fast)
    torch.testing.assert_close(y.double(), wanted, atol=1e-6, rtol=1e-6)
    y.backward(torch.full_like(y, 0.5))
    wanted.backward(torch.full_like(wanted, 0.5))
    assert fast.grad is not None
    assert slow.grad is not None
    torch.testing.assert_close(fast.grad[:-2].double(), slow.grad[:-2], atol=3e-6, rtol=1e-6)
    assert gelu_tanh(slow).dtype == torch.float64


def test_gelu_by_its_tanh_form_compiles():
    x = torch.randn(5, 7, requires_grad=True)
    torch.testing.assert_close(torch.compile(gelu_tanh, backend="aot_eager", fullgraph=True)(x), gelu_tanh(x))


@pytest.mark.parametrize("shape", [(2, 260, 256, 128), (2, 520, 64, 256)])
@pytest.mark.parametrize("biased", [True, False])
def test_large_products_are_those_of_torch_and_so_are_their_gradients(shape, biased, monkeypatch):
    rows, tokens, width, after = shape
    torch.manual_seed(0)
    given = [torch.randn(rows, tokens, width), torch.randn(after, width) * 0.1, torch.randn(after)][: 3 if biased else 2]
    direction, found = torch.randn(rows, tokens, after), []
    for least in (1, 1 << 60):
        monkeypatch.setattr(kernels, "LARGE", least)
        wants = [one.clone().requires_grad_() for one in given]
        y = kernels.linear(*wants)
        assert ("_Linear" in type(y.grad_fn).__name__) == (least == 1)
        first = torch.autograd.grad((y * y * direction).sum(), wants, create_graph=True)
        second = torch.autograd.grad(sum((one * one).sum() for one in first), wants[:2])
        found.append([y, *first, *second])
    for fast, slow in zip(*found, strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-4 * float(slow.detach().abs().max()))
