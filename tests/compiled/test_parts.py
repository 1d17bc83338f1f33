"""Which stacks compiled code knows, and what it takes from them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("numba")

from regard.compiled.parts import Parts
from regard.compiled.products import packed
from regard.layers.int8 import quantize


def test_weights_are_those_of_the_modules(build: Any) -> None:
    model = build()
    parts = Parts.of(model.decoder)
    assert parts is not None
    assert parts.form.cross
    assert parts.form.post
    for layer, block in enumerate(model.decoder.blocks):
        assert (parts.weights.qkv[layer] == packed(block.attention.qkv.weight.detach().numpy())).all()
        _, values = block.cross.kv.bias.detach().numpy().reshape(2, -1)
        assert (parts.weights.v_bias[layer, : len(values)] == values).all()
        assert (parts.weights.cross_norm[layer, 1] == block.cross_norm.bias.detach().numpy()).all()
    assert parts.weights.tokens.shape == (23, 16)
    assert not parts.form.last
    assert Parts(build(placement="pre").encoder).form.last


@pytest.mark.parametrize("name", ["t5", "mistral", "xlnet"])
def test_other_stacks_have_no_twin(build: Any, name: str) -> None:
    model = build(name, **({"window": 3} if name == "mistral" else {}))
    assert Parts.of(model.decoder or model.encoder) is None


def test_neither_have_other_numbers_layers_or_blocks(build: Any) -> None:
    assert Parts.of(build().double().encoder) is None
    assert Parts.of(quantize(build()).encoder) is None
    mixed = build()
    mixed.encoder.blocks[1].feedforward.activation = torch.nn.functional.silu
    assert Parts.of(mixed.encoder) is None


def test_tables_grow_and_end_where_the_positions_end(build: Any) -> None:
    parts = Parts(build().encoder)
    assert len(parts.reach(3).added) >= 3
    few = parts.reach(3).added[:3].copy()
    assert (parts.reach(700).added[:3] == few).all()
    assert len(parts.reach(2).added) >= 700
    learned = Parts(build("gpt2", max_positions=10).decoder)
    assert len(learned.reach(9).added) == 10
    with pytest.raises(ValueError, match="11 tokens, but this model has 10 positions"):
        learned.reach(11)
