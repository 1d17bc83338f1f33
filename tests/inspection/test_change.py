"""Gates on heads: a factor of 1 is nothing, 0 is silence, and the model is given back as it was."""

from __future__ import annotations

import pytest
import torch

from regard.inspection.change import change_heads, gate_heads, head_importance, heads_of, mean_outputs, outputs, patch_heads
from regard.inspection.tape import attentions, record
from regard.models import longformer, rnn, transformer

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


def test_a_heads_own_output_patched_in_changes_nothing(model):
    with record(model) as tape:
        plain = model(INPUTS, OUTPUTS).logits
    with patch_heads(model, {NAME: {1: outputs(tape, NAME, 1)}}):
        assert torch.equal(plain, model(INPUTS, OUTPUTS).logits)
    assert torch.equal(plain, model(INPUTS, OUTPUTS).logits)


def test_patching_all_heads_of_a_layer_brings_another_runs_answer(model):
    """All that the last layers' cross-attention says of another source, put in place of what it says of this one."""
    others = INPUTS.flip(0)
    names = [f"decoder.blocks.{n}.cross.attend" for n in (0, 1)]
    with record(model, names) as tape:
        wanted = model(others, OUTPUTS).logits
    patches = {name: {head: outputs(tape, name, head) for head in range(4)} for name in names}
    with patch_heads(model, patches):
        torch.testing.assert_close(model(INPUTS, OUTPUTS).logits, wanted)


def test_means_stand_for_heads(model):
    with record(model) as tape:
        model(INPUTS, OUTPUTS)
    mean = mean_outputs(tape, NAME, 2)
    assert mean.shape == (1, 1, 4)
    torch.testing.assert_close(mean[0, 0], outputs(tape, NAME, 2).flatten(0, 1).mean(0))
    with patch_heads(model, {NAME: {2: mean}}), record(model, [NAME]) as patched:
        model(INPUTS, OUTPUTS)
    assert not torch.equal(patched.calls[NAME][0].output[:, 2], mean.expand(2, 3, 4))  # the tape has what the head gave
    with patch_heads(model, {NAME: {2: torch.zeros(1, 1, 4)}}):
        silent = model(INPUTS, OUTPUTS).logits
    with gate_heads(model, {NAME: {2: 0.0}}):
        torch.testing.assert_close(silent, model(INPUTS, OUTPUTS).logits)


def test_patches_that_do_not_fit_are_refused(model):
    with pytest.raises(ValueError, match="heads 0 to 3, not 9"), patch_heads(model, {NAME: {9: torch.zeros(1, 1, 4)}}):
        pass
    wrong = {NAME: {0: torch.zeros(1, 7, 4)}}
    with pytest.raises(ValueError, match=r"its patch is \[1, 7, 4\]"), patch_heads(model, wrong):
        model(INPUTS, OUTPUTS)
    assert not any(module._forward_hooks for module in attentions(model).values())


def test_heads_of_every_attention(model):
    assert heads_of(model, NAME) == 4
    sizes = {"vocab_size": 16, "num_layers": 1, "d_model": 8, "d_ff": 8, "num_heads": 2, "max_positions": 16}
    assert heads_of(longformer.describe(**sizes, window=(2,)).build(), "encoder.blocks.0.attention.everywhere.attend") == 2
    assert heads_of(rnn.describe(vocab_size=16, d_model=8, attention="dot").build(), "decoder.attend") == 1


def test_importance_is_zero_where_a_head_is_silent_anyway(model):
    with torch.no_grad():
        model.decoder.blocks[1].cross.output.weight[:, 4:8] = 0.0
    found = head_importance(model, lambda: model(INPUTS, OUTPUTS).logits.square().mean())
    assert found[NAME][1] == 0.0
    assert min(found[NAME][h] for h in (0, 2, 3)) > 0.0
    assert set(found) == set(attentions(model))


def test_a_factor_of_none_is_the_heads_mean_over_what_was_read(model):
    with record(model, [NAME]) as tape:
        plain = model(INPUTS, OUTPUTS).logits
    mean = {NAME: {1: mean_outputs(tape, NAME, 1)}}
    with patch_heads(model, mean), gate_heads(model, {NAME: {3: 0.0}}):
        wanted = model(INPUTS, OUTPUTS).logits
    with change_heads(model, {NAME: {1: None, 3: 0.0}}, lambda: model(INPUTS, OUTPUTS)):
        found = model(INPUTS, OUTPUTS).logits
    torch.testing.assert_close(found, wanted)
    assert not torch.equal(found, plain)
    assert torch.equal(plain, model(INPUTS, OUTPUTS).logits)
    with (
        pytest.raises(ValueError, match="heads 0 to 3, not 4"),
        change_heads(model, {NAME: {4: None}}, lambda: model(INPUTS, OUTPUTS)),
    ):
        pass
