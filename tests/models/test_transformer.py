"""The Transformer against transformers' MarianMTModel (post-norm) and PegasusForConditionalGeneration (pre-norm)."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from regard.checkpoints.folders import load_model, save_model
from regard.errors import UserError
from regard.layers.norms import LayerNorm
from regard.layout import Layout
from regard.models import transformer

transformers = pytest.importorskip("transformers")

SHAPE = {"d_model": 16, "vocab_size": 23, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 32}
SHAPE |= {"decoder_ffn_dim": 24, "encoder_attention_heads": 4, "decoder_attention_heads": 2, "pad_token_id": 0}
SHAPE |= {"eos_token_id": 3, "bos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None}
OURS = {"vocab_size": 23, "d_model": 16, "num_layers": 2, "decoder_layers": 3, "d_ff": 32, "decoder_d_ff": 24}
OURS |= {"num_heads": 4, "decoder_heads": 2}
CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
PLACEMENT = {"marian": "post", "pegasus": "pre"}


def theirs(kind: str, folder=None, **config):
    """A tiny random model of transformers (norms and biases random too), saved if a folder is given."""
    torch.manual_seed(7)
    made = transformers.AutoConfig.for_model(kind, **(SHAPE | config))
    model = getattr(transformers, CLASSES[kind])(made).eval()
    for name, tensor in model.named_parameters():
        if "embed_positions" not in name:
            tensor.data.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.2)
    if folder is not None:
        model.save_pretrained(folder)
    return model


def ours(**arguments):
    torch.manual_seed(8)
    model = transformer.describe(**(OURS | arguments)).build().eval()
    for tensor in model.parameters():
        tensor.data.normal_(0.0, 0.3)
    return model


def batch(rows: int = 3, length: int = 40, others: int = 36):
    """Ids padded on the right, with real tokens beyond position 30."""
    torch.manual_seed(9)
    inputs, outputs = torch.randint(4, 17, (rows, length)), torch.randint(4, 17, (rows, others))
    inputs[1, 33:], outputs[1, 35:], inputs[2, 5:] = 0, 0, 0
    outputs[:, 0] = 2
    return inputs, outputs


def hidden(model, inputs, outputs):
    """Logits and what every block and embedding gives, in order, by our model."""
    found: list[list[torch.Tensor]] = [[], []]
    hooks = []
    for half, keep in zip((model.encoder, model.decoder), found, strict=True):
        for module in (half.embed, *half.blocks, *([half.last_norm] if half.last_norm is not None else [])):
            hooks.append(module.register_forward_hook(lambda m, args, out, keep=keep: keep.append(out)))
    with torch.no_grad():
        logits = model(inputs, outputs).logits
    for hook in hooks:
        hook.remove()
    return logits, found


def check(mine, other, dtype, tolerance):
    """Logits and all hidden states of real tokens are equal."""
    mine, other = mine.to(dtype), other.to(dtype)
    other.set_attn_implementation("eager")
    inputs, outputs = batch()
    with torch.no_grad():
        want = other(
            input_ids=inputs,
            attention_mask=inputs.ne(0).long(),
            decoder_input_ids=outputs,
            decoder_attention_mask=outputs.ne(0).long(),
            output_hidden_states=True,
        )
    logits, found = hidden(mine, inputs, outputs)
    for ids, states, wanted in zip((inputs, outputs), found, (want.encoder_hidden_states, want.decoder_hidden_states)):
        if len(states) > len(wanted):  # transformers gives the normed last state in place of the last block's
            del states[-2]
        assert len(states) == len(wanted)
        for a, b in zip(states, wanted):
            assert (a - b)[ids != 0].abs().max() < tolerance
    assert (logits - want.logits)[outputs != 0].abs().max() < tolerance
    assert want.logits.std() > 0.1


PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("config", [{}, {"scale_embedding": True, "activation_function": "swish"}])
@pytest.mark.parametrize("kind", CLASSES)
def test_transformers_folder_opens_here(tmp_path, kind, config, dtype, tolerance):
    """S-CKPT-10: with and without the factor sqrt(d_model) on embeddings, read from the configuration."""
    other = theirs(kind, tmp_path, **config)
    model, description, meta = load_model(tmp_path)
    assert description == transformer.describe(
        **OURS,
        placement=PLACEMENT[kind],
        scaled=bool(config),
        activation="silu" if config else "gelu",
    )
    assert meta["ids"] == {"pad": 0, "bos": 2, "eos": 3}
    check(model, other, dtype, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("kind", CLASSES)
def test_our_folder_opens_there(tmp_path, kind, dtype, tolerance, recwarn):
    model = ours(placement=PLACEMENT[kind])
    save_model(tmp_path, model, meta={"ids": {"bos": 2, "eos": 3}})
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["model_type"] == kind
    other, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
    assert type(other).__name__ == CLASSES[kind]
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    check(model, other, dtype, tolerance)


@pytest.mark.parametrize(
    ("tied", "config"),
    [
        ("all", {}),
        ("head", {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 19}),
        ("no", {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 19, "tie_word_embeddings": False}),
    ],
)
def test_vocabularies_and_ties_both_ways(tmp_path, tied, config):
    other = theirs("marian", tmp_path / "theirs", **config)
    model, description, _ = load_model(tmp_path / "theirs")
    assert description.tied == tied
    assert description.head.vocab_size == config.get("decoder_vocab_size", 23)
    check(model, other, torch.float32, 1e-5)
    save_model(tmp_path / "ours", model.float(), meta={"ids": {"bos": 2, "eos": 3}})
    check(model, transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "ours"), torch.float32, 1e-5)


@pytest.mark.parametrize("kind", CLASSES)
def test_untied_with_one_vocabulary(tmp_path, kind):
    """tie_word_embeddings false parts all three matrices; the shared one that is stored beside them is not read."""
    other = theirs(kind, tmp_path, tie_word_embeddings=False)
    model, description, _ = load_model(tmp_path)
    assert description.tied == "no"
    check(model, other, torch.float32, 1e-5)


def test_bias_of_the_logits_is_read_and_written(tmp_path):
    """Published Marian models have a bias that is not zero; it is no buffer to be thrown away."""
    other = theirs("marian")
    other.final_logits_bias.normal_()
    other.save_pretrained(tmp_path / "theirs")
    model, description, _ = load_model(tmp_path / "theirs")
    assert description.head.bias
    check(model, other, torch.float32, 1e-5)
    save_model(tmp_path / "ours", model, meta={"ids": {"bos": 2, "eos": 3}})
    check(model, transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "ours"), torch.float32, 1e-5)


@pytest.mark.parametrize(("kind", "seed", "spread"), [("marian", 7, 0.3), ("pegasus", 10, 0.8)])
def test_greedy_and_beam_ids(randomised, answers_parity, tmp_path, kind, seed, spread):
    model = randomised(transformer.describe(**OURS, placement=PLACEMENT[kind]).build(), seed, spread)
    save_model(tmp_path, model, meta={"ids": {"bos": 2, "eos": 3}})
    answers_parity(model, transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path), start=2, eos=3)


@pytest.mark.parametrize("kind", CLASSES)
def test_sources_padded_on_the_left(tmp_path, halves_parity, kind):
    other = theirs(kind, tmp_path)
    halves_parity(load_model(tmp_path)[0], other, torch.float64, 1e-10, sides=("left",))


def test_ckpt_04_activation_is_read(tmp_path):
    """S-CKPT-04: relu, gelu and swish differ, each equals the reference; another name is refused."""
    seen = []
    for name in ("relu", "gelu", "swish", "gelu_new"):
        other = theirs("marian", tmp_path / name, activation_function=name)
        model, _, _ = load_model(tmp_path / name)
        check(model, other, torch.float32, 1e-5)
        seen.append(model.float()(*batch()).logits)
    for i, a in enumerate(seen):
        assert all((a - b).abs().max() > 1e-6 for b in seen[:i])
    config = json.loads((tmp_path / "relu" / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "relu" / "config.json").write_text(json.dumps(config | {"activation_function": "foo"}), encoding="utf-8")
    with pytest.raises(UserError, match="activation_function is 'foo', known are relu"):
        load_model(tmp_path / "relu")


@pytest.mark.parametrize("eps", [1e-12, 1e-3])
def test_ckpt_05_epsilon_is_kept(tmp_path, eps):
    """S-CKPT-05: every norm has the described epsilon, and no class with another one is named for it."""
    description = transformer.describe(**OURS, placement="pre")
    norm = LayerNorm(eps)

    def normed(stack):
        return dataclasses.replace(
            stack, blocks=tuple(dataclasses.replace(b, norm=norm) for b in stack.blocks), last_norm=norm
        )

    description = dataclasses.replace(description, encoder=normed(description.encoder), decoder=normed(description.decoder))
    model = description.build().eval()
    torch.nn.init.normal_(model.encoder.embed.tokens.weight, std=1e-3)
    save_model(tmp_path, model)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["model_type"] == "regard"
    back, _, _ = load_model(tmp_path)
    norms = [m for m in back.modules() if isinstance(m, torch.nn.LayerNorm)]
    assert len(norms) == 2 * 2 + 3 * 3 + 2
    assert {m.eps for m in norms} == {eps}
    x = torch.randn(4, 16) * 1e-3
    spread = x - x.mean(-1, keepdim=True)
    assert torch.allclose(norms[0](x), spread / (spread.square().mean(-1, keepdim=True) + eps).sqrt(), atol=1e-5)
    assert torch.equal(back(*batch()).logits, model(*batch()).logits)


@pytest.mark.parametrize(
    "arguments",
    [
        {"gated": True},
        {"positions": "learned", "max_positions": 64},
        {"positions": "none"},
        {"num_kv_heads": 2},
        {"placement": "pre", "target_vocab_size": 19},
    ],
)
def test_what_no_class_computes_is_refused_there(tmp_path, arguments):
    model = ours(**arguments)
    save_model(tmp_path, model, meta={"ids": {"bos": 2, "eos": 3}})
    with pytest.raises((ValueError, KeyError), match="regard"):
        transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path)
    back, description, _ = load_model(tmp_path)
    assert description == model.description
    assert torch.equal(back(*batch()).logits, model(*batch()).logits)


@pytest.mark.parametrize("arguments", [{}, {"placement": "pre"}, {"tied": "no", "target_vocab_size": 9}, {"gated": True}])
def test_arguments_are_read_off_a_description(arguments):
    description = transformer.describe(**OURS, **arguments)
    found = transformer.arguments(description)
    assert found is not None
    assert transformer.describe(**found) == description
    other = dataclasses.replace(description, head=dataclasses.replace(description.head, vocab_size=5))
    assert transformer.arguments(other) is None


def test_configuration_is_refused_by_name_in_one_error(tmp_path):
    theirs("marian", tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    wrong = config | {"normalize_before": True, "static_position_embeddings": False, "pruned_heads": {"0": [1]}}
    del wrong["d_model"]
    path.write_text(json.dumps(wrong), encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_model(tmp_path)
    for name in ("normalize_before is True", "static_position_embeddings is False", "pruned_heads", "d_model is missing"):
        assert name in str(error.value)
    assert "\n" not in str(error.value)
    path.write_text(json.dumps(config | {"moon_phase": 3, "sun": 1}), encoding="utf-8")
    with pytest.warns(UserWarning, match="moon_phase, sun") as seen:
        load_model(tmp_path)
    assert len(seen) == 1


def test_positions_that_were_trained_are_refused(tmp_path):
    from safetensors.torch import load_file, save_file

    theirs("pegasus", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.encoder.embed_positions.weight"] += 0.1
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"embed_positions\.weight is not what the configuration says"):
        load_model(tmp_path)


def test_layout_and_ids_agree_on_padding():
    model = ours()
    inputs, outputs = batch()
    layout, output_layout = Layout.padded([40, 33, 5]), Layout.padded([36, 35, 36])
    a = model(inputs, outputs).logits
    b = model(inputs, outputs, layout=layout, output_layout=output_layout).logits
    assert torch.equal(a, b)
