from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from regard.layers.feedforward import ACTIVATIONS, Dense, Gated, activation

X = torch.randn(2, 3, 4)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_dense_is_two_products_around_an_activation(name):
    module = Dense(6, name).build(4)
    want = ACTIVATIONS[name](X @ module.expand.weight.t() + module.expand.bias) @ module.contract.weight.t()
    torch.testing.assert_close(module(X), want + module.contract.bias)


def test_gated_multiplies_an_activated_product_by_another():
    module = Gated(6).build(4)
    first, second = module.expand.weight[:6], module.expand.weight[6:]
    torch.testing.assert_close(module(X), (F.silu(X @ first.t()) * (X @ second.t())) @ module.contract.weight.t())
    assert module.expand.bias is None


def test_unknown_activations_are_refused_with_the_known():
    with pytest.raises(ValueError, match=r"'swish'; known: relu, gelu"):
        activation("swish")


def test_gelu_has_both_its_forms():
    torch.testing.assert_close(activation("gelu")(X), F.gelu(X))
    torch.testing.assert_close(activation("gelu_tanh")(X), F.gelu(X, approximate="tanh"))


def test_dropout_falls_inside():
    for its in (Dense(64, dropout=0.5), Gated(64, dropout=0.5)):
        module = its.build(4)
        assert not torch.equal(module(X), module(X))
        assert torch.equal(module.eval()(X), module(X))


def test_a_description_says_whether_it_is_gated():
    assert (Dense(4).gated, Gated(4).gated) == (False, True)
