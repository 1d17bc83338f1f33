"""BART and mBART against transformers' BartForConditionalGeneration and MBartForConditionalGeneration."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from regard.checkpoints.folders import load_model, save_model
from regard.errors import UserError
from regard.models import bart

transformers = pytest.importorskip("transformers")

PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]
SHAPE = {"vocab_size": 23, "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_ffn_dim": 32}
SHAPE |= {"decoder_ffn_dim": 24, "encoder_attention_heads": 4, "decoder_attention_heads": 2, "max_position_embeddings": 48}
SHAPE |= {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None}
OURS = {"vocab_size": 23, "d_model": 16, "num_layers": 2, "decoder_layers": 3, "d_ff": 32, "decoder_d_ff": 24}
OURS |= {"num_heads": 4, "decoder_heads": 2, "max_positions": 48}
CLASSES = {"bart": "BartForConditionalGeneration", "mbart": "MBartForConditionalGeneration"}
PLACEMENT = {"bart": "post", "mbart": "pre"}


@pytest.fixture
def theirs(randomised, tmp_path):
    """A tiny random model of transformers, saved in tmp_path / "theirs"."""

    def make(kind: str = "bart", **config):
        made = transformers.AutoConfig.for_model(kind, **(SHAPE | config))
        model = randomised(getattr(transformers, CLASSES[kind])(made))
        model.save_pretrained(tmp_path / "theirs")
        return model

    return make


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("config", [{}, {"scale_embedding": True, "activation_function": "relu"}])
@pytest.mark.parametrize("kind", CLASSES)
def test_transformers_folder_opens_here(theirs, halves_parity, tmp_path, kind, config, dtype, tolerance):
    """S-CKPT-10: with and without the factor sqrt(d_model) on embeddings, read from the configuration."""
    other = theirs(kind, **config)
    model, description, meta = load_model(tmp_path / "theirs")
    activation = "relu" if config else "gelu"
    assert description == bart.describe(**OURS, placement=PLACEMENT[kind], scaled=bool(config), activation=activation)
    assert {key: meta["ids"][key] for key in ("pad", "bos", "eos")} == {"pad": 1, "bos": 2, "eos": 2}
    halves_parity(model, other, dtype, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize("kind", CLASSES)
def test_our_folder_opens_there(randomised, halves_parity, tmp_path, kind, dtype, tolerance):
    model = randomised(bart.describe(**OURS, placement=PLACEMENT[kind], head_bias=True, activation="silu").build())
    save_model(tmp_path, model, meta={"ids": {"bos": 2, "eos": 2}})
    other, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
    assert type(other).__name__ == CLASSES[kind]
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    halves_parity(model, other, dtype, tolerance)
    _, description, _ = load_model(tmp_path)
    assert description == model.description


@pytest.mark.parametrize(("placement", "spread"), [("post", 0.3), ("pre", 0.5)])
def test_greedy_and_beam_ids(randomised, answers_parity, tmp_path, placement, spread):
    model = randomised(bart.describe(**OURS, placement=placement, head_bias=True).build(), 11, spread)
    save_model(tmp_path, model, meta={"ids": {"bos": 2, "eos": 2}})
    answers_parity(model, transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path), start=2, eos=2)


def test_untied_matrices_are_three(theirs, halves_parity, tmp_path):
    other = theirs(tie_word_embeddings=False)
    model, description, _ = load_model(tmp_path / "theirs")
    assert description.tied == "no"
    halves_parity(model, other, sides=("right",))


def test_ckpt_04_activation_is_read(theirs, halves_parity, tmp_path):
    """S-CKPT-04: relu, gelu and swish differ, each equals the reference; another name is refused."""
    seen = []
    for name in ("relu", "gelu", "swish"):
        other = theirs(activation_function=name)
        model, _, _ = load_model(tmp_path / "theirs")
        halves_parity(model, other, sides=("no",))
        seen.append(model(torch.tensor([[5, 6, 7]]), torch.tensor([[2, 8, 9]])).logits)
    assert all((a - b).abs().max() > 1e-6 for i, a in enumerate(seen) for b in seen[:i])
    path = tmp_path / "theirs" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(config | {"activation_function": "foo"}), encoding="utf-8")
    with pytest.raises(UserError, match="activation_function is 'foo', known are relu"):
        load_model(tmp_path / "theirs")


def test_ckpt_10_embeddings_are_scaled_as_the_configuration_says(theirs, tmp_path):
    """S-CKPT-10: width 16, the same weights: embeddings × 4 and × 1."""
    found = []
    for scaled in (True, False):
        theirs(scale_embedding=scaled)
        model, _, _ = load_model(tmp_path / "theirs")
        embed = model.encoder.embed
        embed.norm, embed.position.table.weight.data[:] = None, 0.0
        found.append(model.encode(torch.tensor([[5, 6, 7]])).states)
        seen = embed(torch.tensor([[5, 6, 7]]), embed.place(torch.tensor([[5, 6, 7]]), None))
        factor = 4.0 if scaled else 1.0
        assert torch.allclose(seen, factor * embed.tokens.weight[[5, 6, 7]][None], atol=1e-6)
    assert (found[0] - found[1]).abs().max() > 1e-3


def test_ckpt_11_two_leading_rows_of_the_table_are_kept(theirs, halves_parity, tmp_path):
    """S-CKPT-11: 16 positions in a table of 18 rows; the first token has row 2; 17 tokens are refused; so again in our
    folder."""
    other = theirs(max_position_embeddings=16)
    model, _, _ = load_model(tmp_path / "theirs")
    for half in (model.encoder, model.decoder):
        assert half.embed.position.table.weight.shape == (18, 16)
        assert half.limit == 16
    embed = model.encoder.embed
    embed.norm = None
    first = embed(torch.tensor([[5]]), embed.place(torch.tensor([[5]]), None))[0, 0]
    assert torch.allclose(first, embed.tokens.weight[5] + embed.position.table.weight[2])
    model, _, _ = load_model(tmp_path / "theirs")
    ids = torch.randint(4, 23, (2, 16))
    with torch.no_grad():
        want = other(input_ids=ids, decoder_input_ids=ids).logits
        assert (model(ids, ids).logits - want).abs().max() < 1e-5
    with pytest.raises(ValueError, match="17 tokens, but this model has 16 positions"):
        model(torch.randint(4, 23, (1, 17)), ids[:1])
    save_model(tmp_path / "ours", model, meta={"ids": {"bos": 2, "eos": 2}})
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "ours")
    assert again.model.encoder.embed_positions.weight.shape == (18, 16)
    with torch.no_grad():
        assert (again(input_ids=ids, decoder_input_ids=ids).logits - want).abs().max() < 1e-5


def test_older_configurations(theirs, halves_parity, tmp_path):
    """Keys of version 3 and 4 that say what every such model is; those that say something else are refused."""
    other = theirs()
    path = tmp_path / "theirs" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["torch_dtype"] = config.pop("dtype")
    old = {"normalize_before": False, "add_final_layer_norm": False, "normalize_embedding": True, "extra_pos_embeddings": 2}
    old |= {"static_position_embeddings": False, "add_bias_logits": False, "classif_dropout": 0.1, "num_hidden_layers": 2}
    path.write_text(json.dumps(config | old), encoding="utf-8")
    model, _, _ = load_model(tmp_path / "theirs")
    halves_parity(model, other, sides=("no",))
    path.write_text(json.dumps(config | {"normalize_before": True, "extra_pos_embeddings": 0}), encoding="utf-8")
    with pytest.raises(UserError) as error:
        load_model(tmp_path / "theirs")
    for words in ("normalize_before is True", "extra_pos_embeddings is 0"):
        assert words in str(error.value)


@pytest.mark.parametrize("arguments", [{}, {"placement": "pre", "scaled": True}, {"tied": "no", "decoder_heads": None}])
def test_arguments_are_read_off_a_description(arguments):
    description = bart.describe(**(OURS | arguments))
    found = bart.arguments(description)
    assert found is not None
    assert bart.describe(**found) == description
    other = dataclasses.replace(description, head=dataclasses.replace(description.head, scale=0.5))
    assert bart.arguments(other) is None


def test_initial_weights_are_small_and_padding_is_zero():
    torch.manual_seed(0)
    model = bart.describe(vocab_size=300, d_model=64, num_layers=1, d_ff=64, num_heads=4).build()
    bart.initialise(model)
    weight = model.encoder.embed.tokens.weight
    assert (weight[1] == 0).all()
    assert abs(weight.std().item() - 0.02) < 1e-3
    assert model.head.project.weight is weight
