"""The small models of labs."""

from __future__ import annotations

import torch

from regard.labs.frame.build import built, dependency, from_vectors, language_model, number_of_weights, stack
from regard.layers.masks import Causal
from regard.layout import Layout


def test_weights_are_the_same_in_every_type_and_arm():
    double, causal = built(stack(), torch.float64), built(stack(Causal()), torch.float32)
    for one, two in zip(double.parameters(), causal.parameters(), strict=True):
        assert torch.equal(one.float(), two)


def test_the_dependency_is_the_norm_of_the_jacobian():
    x = torch.randn(3, 4, dtype=torch.float64)
    mix = torch.randn(12, 12, dtype=torch.float64)

    def read(rows):
        return (rows.flatten(1).sin() @ mix).unflatten(1, (3, 4))

    jacobian = torch.autograd.functional.jacobian(lambda rows: read(rows[None])[0], x)
    torch.testing.assert_close(dependency(read, x), jacobian.square().sum((1, 3)).sqrt())


def test_vectors_stand_in_for_embeddings():
    model, layout = built(stack()), Layout.unpadded(5)
    ids = torch.arange(5)[None]
    wanted = model(ids, layout).states
    hook = from_vectors(model, model.embed(ids, layout))
    assert torch.equal(model(torch.zeros_like(ids), layout).states, wanted)
    hook.remove()
    assert not torch.equal(model(torch.zeros_like(ids), layout).states, wanted)


def test_weights_are_counted():
    assert (
        number_of_weights(language_model(num_layers=1).build())
        == 100 * 64 * 2 + 4 * 64**2 + 4 * 64 + 2 * 64 * 128 + 192 + 256
    )
