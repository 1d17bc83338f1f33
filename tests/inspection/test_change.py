"""Gates on heads: a factor of 1 is nothing, 0 is silence, and the model is given back as it was."""

from __future__ import annotations

import pytest
import torch

from regard.inspection.change import gate_heads
from regard.inspection.tape import attentions
from regard.models import rnn, transformer

INPUTS, OUTPUTS = torch.tensor([[4, 5, 6, 3], [7, 8, 3, 0]]), torch.tensor([[2, 9, 9], [2, 8, 0]])
NAME = "decoder.blocks.1.cross.attend"


@pytest.fixture
def model():
    torch.manual_seed(1)
    built = transformer.describe(vocab_size=16, num_layers=2, d_model=16, d_ff=32, num_heads=4).build()
    transformer.initialise(built)
    return built.eval()


def test_factor_1_changes_nothing_bit_for_bit(model):
    plain = model(INPUTS, OUTPUTS).logits
    with gate_heads(model, {name: dict.fromkeys(range(4), 1.0) for name in attentions(model)}):
        gated = model(INPUTS, OUTPUTS).logits
    assert torch.equal(plain, gated)


@pytest.mark.parametrize("head", [0, 3])
def test_factor_0_equals_zeros_in_the_heads_columns_of_the_output_projection(model, head):
    plain = model(INPUTS, OUTPUTS).logits
    with gate_heads(model, {NAME: {head: 0.0}}):
        gated = model(INPUTS, OUTPUTS).logits
    with torch.no_grad():
        model.decoder.blocks[1].cross.output.weight[:, 4 * head : 4 * head + 4] = 0.0
    torch.testing.assert_close(gated, model(INPUTS, OUTPUTS).logits, atol=1e-7, rtol=0)
    assert not torch.equal(plain, gated)


def test_a_factor_between_scales_the_heads_columns(model):
    with gate_heads(model, {NAME: {2: 0.5}}):
        gated = model(INPUTS, OUTPUTS).logits
    with torch.no_grad():
        model.decoder.blocks[1].cross.output.weight[:, 8:12] *= 0.5
    torch.testing.assert_close(gated, model(INPUTS, OUTPUTS).logits, atol=1e-6, rtol=0)


def test_gates_are_gone_afterwards_even_after_an_error(model):
    plain = model(INPUTS, OUTPUTS).logits
    with pytest.raises(ZeroDivisionError), gate_heads(model, {NAME: {0: 0.0}}):
        1 / 0  # noqa: B018
    assert torch.equal(plain, model(INPUTS, OUTPUTS).logits)
    assert not any(module._forward_hooks for module in attentions(model).values())


def test_unknown_names_and_heads_are_refused_before_anything_changes(model):
    with (
        pytest.raises(ValueError, match=r"no attention is called 'decoder\.cross'"),
        gate_heads(model, {"decoder.cross": {0: 0}}),
    ):
        pass
    with pytest.raises(ValueError, match="heads 0 to 3, not 4"), gate_heads(model, {NAME: {4: 0.0}}):
        pass
    assert not any(module._forward_hooks for module in attentions(model).values())


def test_the_one_head_of_a_recurrent_decoder_can_be_silenced():
    torch.manual_seed(1)
    model = rnn.describe(vocab_size=16, d_model=16, attention="additive").build().eval()
    plain = model(INPUTS, OUTPUTS).logits
    with gate_heads(model, {"decoder.attend": {0: 0.0}}):
        assert not torch.allclose(plain, model(INPUTS, OUTPUTS).logits)
    with pytest.raises(ValueError, match="heads 0 to 0, not 1"), gate_heads(model, {"decoder.attend": {1: 0.0}}):
        pass
