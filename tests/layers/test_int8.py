"""Weights of eight bits: the fast product equals its definition, nothing overflows, models keep their answers."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from regard.architecture import Targets
from regard.errors import UserError
from regard.layers import int8
from regard.layers.int8 import LARGEST, Int8Linear, quantize, rounded, slow_int8_linear, stepped
from regard.layers.lora import adapt, adapted


@pytest.mark.parametrize("shape", [(1, 16), (3, 16), (2, 5, 16)])
@pytest.mark.parametrize("bias", [False, True])
def test_the_fast_product_is_the_slow_one(shape, bias) -> None:
    torch.manual_seed(0)
    layer, x = nn.Linear(16, 24, bias=bias), torch.randn(shape)
    got = Int8Linear.of(layer)(x)
    want = slow_int8_linear(x, *rounded(layer.weight), layer.bias)
    assert got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-3)
    assert (got - layer(x)).norm() < 0.03 * layer(x).norm()


def test_without_a_fast_product_the_definition_serves(monkeypatch) -> None:
    layer, x = nn.Linear(16, 24), torch.randn(5, 16)
    fast = Int8Linear.of(layer)
    monkeypatch.setattr(int8, "packed", lambda *_: None)
    slow = Int8Linear.of(layer)
    assert slow.packed is None
    assert torch.equal(slow(x), slow_int8_linear(x, *rounded(layer.weight), layer.bias))
    assert (slow(x) - fast(x)).norm() < 0.01 * fast(x).norm()


def test_steps_have_a_zero() -> None:
    x = torch.tensor([[3.0, 0.0, -1.0, 0.5]])
    assert stepped(x)[0, 1] == 0.0
    torch.testing.assert_close(stepped(x), x, rtol=0, atol=2.01 / 255)
    assert torch.equal(stepped(torch.zeros(2)), torch.zeros(2))
    assert float(stepped(torch.tensor([2.0, 4.0]))[1]) == pytest.approx(4.0, abs=0.01)


def test_the_largest_numbers_do_not_overflow() -> None:
    weight = torch.ones(8, 64) * torch.tensor([[1.0], [-1.0]] * 4)
    layer = Int8Linear(*rounded(weight), None)
    x = torch.ones(4, 64)
    torch.testing.assert_close(layer(x), x @ weight.T, rtol=1e-5, atol=1e-4)


def test_rows_have_scales_of_their_own() -> None:
    weight = torch.randn(5, 32) * torch.tensor([1e-6, 1e-3, 1.0, 1e3, 0.0])[:, None]
    values, scales = rounded(weight)
    error = (values.float() * scales[:, None] - weight).abs().amax(1)
    assert (error <= scales / 2 * 1.001).all()
    assert values.abs().amax(1).tolist() == [LARGEST] * 4 + [0]


def test_the_weight_can_be_read_and_some_outputs_taken() -> None:
    layer = nn.Linear(16, 24)
    small = Int8Linear.of(layer)
    weight = layer.weight.detach()
    torch.testing.assert_close(small.weight, weight, rtol=0, atol=0.51 * float(weight.abs().max()) / LARGEST)
    rows, x = torch.tensor([3, 20, 7]), torch.randn(2, 16)
    torch.testing.assert_close(small.narrowed(rows)(x), small(x)[:, rows])


def test_it_goes_to_another_process_and_is_copied() -> None:
    small, x = Int8Linear.of(nn.Linear(8, 6)), torch.randn(3, 8)
    for other in (pickle.loads(pickle.dumps(small)), copy.deepcopy(small)):
        assert torch.equal(other(x), small(x))


def test_a_model_keeps_its_answers(model_for, shared) -> None:
    model = model_for(shared, d_model=32, d_ff=64)
    twin = quantize(copy.deepcopy(model))
    inputs, outputs = torch.randint(4, 20, (2, 5)), torch.randint(4, 20, (2, 4))
    want, got = model(inputs, outputs).logits, twin(inputs, outputs).logits
    assert (got - want).norm() < 0.1 * want.norm()
    assert not any(isinstance(module, nn.Linear) for module in twin.modules())
    targets = Targets(torch.randint(4, 20, (2, 4)))
    torch.testing.assert_close(
        twin(inputs, outputs, targets=targets).loss_sum,
        model(inputs, outputs, targets=targets).loss_sum,
        rtol=0.05,
        atol=0.1,
    )


def test_updates_of_adapters_are_in_it(model_for, shared) -> None:
    model = model_for(shared)
    adapt(model, ["q"], 2, 4.0)
    layer = next(iter(adapted(model).values()))
    with torch.no_grad():
        layer.parts[0][1].b.normal_()
    torch.testing.assert_close(Int8Linear.of(layer).weight, layer.merged_weight(), rtol=0, atol=0.1)


def test_it_is_not_saved(model_for, shared, tmp_path) -> None:
    with pytest.raises(UserError, match="for use alone"):
        quantize(model_for(shared)).state_dict()
