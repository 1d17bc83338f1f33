"""The recorder sees what attends to what and changes nothing."""

from __future__ import annotations

import pytest
import torch

from regard.inspection.tape import align, attentions, is_cross, record
from regard.layout import Layout
from regard.models import rnn, transformer

INPUTS = torch.tensor([[5, 6, 3, 0, 0, 0, 0], [7, 8, 9, 10, 11, 12, 3], [4, 9, 8, 3, 0, 0, 0]])
OUTPUTS = torch.tensor([[2, 9, 8, 0, 0], [2, 4, 4, 5, 6], [2, 7, 7, 7, 0]])


def build(heads: int = 2, kv_heads: int | None = None):
    torch.manual_seed(0)
    sizes = {"vocab_size": 16, "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": heads, "num_kv_heads": kv_heads}
    model = transformer.describe(**sizes).build()
    transformer.initialise(model)
    return model.eval()


def build_rnn(attention: str, **more):
    torch.manual_seed(0)
    model = rnn.describe(vocab_size=16, d_model=16, attention=attention, **more).build()
    rnn.initialise(model)
    return model.eval()


@pytest.mark.parametrize("training", [False, True])
def test_output_is_equal_bit_for_bit_with_and_without_recording(training):
    model = build().train(training)
    torch.manual_seed(3)
    plain = model(INPUTS, OUTPUTS).logits
    torch.manual_seed(3)
    with record(model) as tape:
        recorded = model(INPUTS, OUTPUTS).logits
    assert torch.equal(plain, recorded)
    assert len(tape.names) == 6
    torch.manual_seed(3)
    assert torch.equal(plain, model(INPUTS, OUTPUTS).logits)
    assert not any(module._forward_hooks for module in attentions(model).values())


def test_three_kinds_of_attention_have_their_own_names_and_shapes():
    """S-INSP-06: encoder, decoder and cross-attention are never mixed up; the decoder's is a lower triangle."""
    model = build()
    with record(model) as tape:
        model(torch.tensor([[4, 5, 6, 7, 3]]), torch.tensor([[2, 8, 9]]))
    assert tape.weights("encoder.blocks.1.attention.attend").shape == (1, 2, 5, 5)
    own = tape.weights("decoder.blocks.1.attention.attend")
    assert own.shape == (1, 2, 3, 3)
    assert (own.triu(1) == 0).all()
    assert own.tril().sum() == pytest.approx(6.0)
    assert tape.weights("decoder.blocks.1.cross.attend").shape == (1, 2, 3, 5)
    assert [name for name in tape.names if is_cross(name)] == [f"decoder.blocks.{i}.cross.attend" for i in (0, 1)]


@pytest.mark.parametrize("kv_heads", [None, 1])
def test_weights_times_values_are_what_the_fast_body_gave(kv_heads):
    model, given = build(4, kv_heads), {}
    module = model.decoder.blocks[0].cross.attend
    hook = module.register_forward_hook(lambda _, args, output: given.update(v=args[2], output=output))
    with record(model) as tape:
        model(INPUTS, OUTPUTS)
    hook.remove()
    weights = tape.weights("decoder.blocks.0.cross.attend")
    values = given["v"].repeat_interleave(4 // given["v"].shape[1], 1)
    torch.testing.assert_close(weights @ values, given["output"], atol=1e-6, rtol=1e-5)


def test_padding_has_no_weight_and_rows_stay_in_order():
    """S-INSP-04, S-INSP-07: row i is sentence i, and its padded columns weigh exactly 0."""
    model = build()
    with record(model) as tape:
        model(INPUTS, OUTPUTS)
    weights = tape.weights("decoder.blocks.1.cross.attend")
    for row, length in enumerate((3, 7, 4)):
        assert (weights[row, :, :, length:] == 0).all()
        torch.testing.assert_close(weights[row].sum(-1), torch.ones(2, 5))
        alone = align(model, INPUTS[row, :length].tolist(), OUTPUTS[row, : (3, 5, 4)[row]].tolist())
        torch.testing.assert_close(weights[row].mean(0)[: alone.shape[0], :length], alone, atol=1e-5, rtol=1e-4)


def test_head_and_rows_choose():
    model = build()
    with record(model, ["decoder.*.cross.attend"]) as tape:
        model(INPUTS, OUTPUTS)
    assert tape.names == ["decoder.blocks.0.cross.attend", "decoder.blocks.1.cross.attend"]
    whole = tape.weights(tape.names[0])
    assert torch.equal(tape.weights(tape.names[0], head=1), whole[:, 1])
    assert torch.equal(tape.weights(tape.names[0], rows=[2, 0]), whole[[2, 0]])
    with pytest.raises(ValueError, match="heads 0 to 1, not 2"):
        tape.weights(tape.names[0], head=2)
    with pytest.raises(KeyError, match="was recorded"):
        tape.weights("encoder.blocks.0.attention.attend")


def test_token_by_token_gives_the_same_weights_as_one_pass():
    model = build()
    memory = model.encode(INPUTS[1:2])
    with record(model, ["decoder.*"]) as steps:
        state = model.start(memory, 5)
        for t in range(5):
            model.step(OUTPUTS[1:2, t : t + 1], state)
    with record(model, ["decoder.*"]) as whole:
        model(INPUTS[1:2], OUTPUTS[1:2])
    for name in whole.names:
        torch.testing.assert_close(steps.weights(name), whole.weights(name), atol=1e-5, rtol=1e-4)


def test_silence_is_an_error():
    model = build()
    with pytest.raises(RuntimeError, match="no attention of this model was called"), record(model):
        pass
    with (
        pytest.raises(ValueError, match=r"no attention is called 'decoder\.blocks\.7"),
        record(model, ["decoder.blocks.7.*"]),
    ):
        pass


def test_an_error_inside_is_not_hidden_and_the_hooks_are_gone():
    model = build()
    with pytest.raises(ZeroDivisionError), record(model):
        1 / 0  # noqa: B018
    assert not any(module._forward_hooks for module in attentions(model).values())


def test_batches_of_different_sizes_are_refused():
    model = build()
    with record(model) as tape:
        model(INPUTS, OUTPUTS)
        model(INPUTS[:1], OUTPUTS[:1])
    with pytest.raises(ValueError, match="different sizes"):
        tape.weights(tape.names[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("attention", ["transformer", "additive"])
def test_weights_are_made_in_fp32_at_least(dtype, attention):
    model = (build() if attention == "transformer" else build_rnn(attention)).to(dtype)
    weights = align(model, [4, 5, 6, 3], [2, 7])
    assert weights.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    torch.testing.assert_close(weights.sum(1), torch.ones(2, dtype=weights.dtype), atol=1e-6, rtol=0)


@pytest.mark.parametrize("attention", ["additive", "dot", "general", "concat", "scaled_dot", "location"])
def test_recurrent_decoders_align_by_the_same_function(attention):
    model = build_rnn(attention).train()
    weights = align(model, [4, 5, 6, 7, 3], [2, 8, 9])
    assert weights.shape == (3, 5)
    torch.testing.assert_close(weights.sum(1), torch.ones(3))
    assert model.training


def test_align_takes_the_layer_asked_for_and_refuses_where_there_is_none():
    """S-INSP-03: one row for each output read, one column for each input, each row summing to 1."""
    model = build()
    first, last = align(model, [4, 5, 6, 7, 8, 3], [2, 8, 9, 10, 11], 0), align(model, [4, 5, 6, 7, 8, 3], [2, 8, 9, 10, 11])
    assert first.shape == last.shape == (5, 6)
    assert not torch.equal(first, last)
    assert torch.equal(last, align(model, [4, 5, 6, 7, 8, 3], [2, 8, 9, 10, 11], 1))
    with pytest.raises(ValueError, match="no attention from outputs to inputs"):
        align(build_rnn("none"), [4, 3], [2])


def test_packed_rows_are_recorded_within_their_documents():
    model = build()
    with record(model, ["encoder.blocks.0.attention.attend"]) as tape:
        model.encode(torch.tensor([[4, 5, 3, 6, 3]]), Layout.packed([[3, 2]]))
    weights = tape.weights("encoder.blocks.0.attention.attend")[0, 0]
    assert (weights[:3, 3:] == 0).all()
    assert (weights[3:, :3] == 0).all()
