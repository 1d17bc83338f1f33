"""Rollout against a product written out."""

from __future__ import annotations

import torch

from regard.inspection.rollout import rollout


def test_it_is_the_product_of_the_layers() -> None:
    layers = [torch.rand(2, 5, 5).softmax(-1) for _ in range(3)]
    eye = torch.eye(5)
    want = eye
    for weights in layers:
        want = (0.5 * (weights.mean(0) + eye)) @ want
    found = rollout(layers)
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(found.sum(1), torch.ones(5))


def test_layers_that_look_at_themselves_pass_everything_on() -> None:
    torch.testing.assert_close(rollout([torch.eye(4)[None]] * 6), torch.eye(4))


def test_order_matters_and_causes_stay_before_effects() -> None:
    layers = [torch.rand(1, 5, 5).tril().add(1e-3).tril() for _ in range(2)]
    layers = [one / one.sum(-1, keepdim=True) for one in layers]
    found = rollout(layers)
    assert (found.triu(1) == 0).all()
    assert not torch.allclose(found, rollout(layers[::-1]))
