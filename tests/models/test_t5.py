"""T5 1.0 and 1.1 against transformers' T5ForConditionalGeneration, mT5 against MT5ForConditionalGeneration."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from torch import nn

from regard.checkpoints.folders import load_model, save_model
from regard.errors import UserError
from regard.layers.attention import MultiHeadAttention
from regard.models import t5

transformers = pytest.importorskip("transformers")

PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-5)]  # their norms stay in single precision
SHAPE = {"vocab_size": 23, "d_model": 16, "d_kv": 6, "d_ff": 20, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4}
SHAPE |= {"pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0, "relative_attention_max_distance": 30}
OURS = {"vocab_size": 23, "d_model": 16, "head_dim": 6, "d_ff": 20, "num_layers": 2, "decoder_layers": 3, "num_heads": 4}
OURS |= {"farthest": 30}
CLASSES = {"t5": "T5ForConditionalGeneration", "mt5": "MT5ForConditionalGeneration"}
UNTIED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
OURS_11 = {"gated": True, "activation": "gelu_tanh", "tied": "embeddings"}


@pytest.fixture
def theirs(randomised, tmp_path):
    """A tiny random model of transformers, saved in tmp_path / "theirs"."""

    def make(kind: str = "t5", **config):
        made = transformers.AutoConfig.for_model(kind, **(SHAPE | config))
        model = getattr(transformers, CLASSES[kind])(made)
        if config.get("tie_word_embeddings") is False:  # the class ties what is equal
            model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
        randomised(model).save_pretrained(tmp_path / "theirs")
        return model

    return make


def edit(folder, **keys):
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | keys
    path.write_text(json.dumps({k: v for k, v in config.items() if k not in keys or v is not None}), encoding="utf-8")


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@pytest.mark.parametrize(
    ("kind", "config", "arguments"),
    [("t5", {}, {}), ("t5", UNTIED, OURS_11), ("mt5", {}, {"gated": True, "activation": "gelu_tanh", "scaled": False})],
)
def test_transformers_folder_opens_here(theirs, halves_parity, tmp_path, kind, config, arguments, dtype, tolerance):
    other = theirs(kind, **config)
    model, description, meta = load_model(tmp_path / "theirs")
    assert description == t5.describe(**OURS, **arguments)
    assert meta["ids"] | {"mark": None} == {"pad": 0, "bos": 0, "eos": 3, "mark": None}
    halves_parity(model, other, dtype, tolerance, start=0)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"eps": 1e-3, "buckets": 8, "dropout": 0.3}, "T5ForConditionalGeneration"),
        (OURS_11, "T5ForConditionalGeneration"),
        ({"gated": True, "activation": "silu", "tied": "embeddings", "scaled": True}, "T5ForConditionalGeneration"),
        ({"scaled": False}, "MT5ForConditionalGeneration"),
    ],
)
def test_our_folder_opens_there(randomised, halves_parity, tmp_path, arguments, kind):
    model = randomised(t5.describe(**(OURS | arguments)).build())
    save_model(tmp_path, model, meta={"ids": {"bos": 0, "eos": 3}})
    other, info = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path, output_loading_info=True)
    assert type(other).__name__ == kind
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert other.config.dropout_rate == model.description.encoder.blocks[0].dropout
    halves_parity(model, other, start=0)
    _, description, _ = load_model(tmp_path)
    assert description == model.description


@pytest.mark.parametrize(("arguments", "seed"), [({}, 8), (OURS_11, 3)])
def test_greedy_and_beam_ids(randomised, answers_parity, tmp_path, arguments, seed):
    """As many layers in both halves: their cache has no more for the decoder than the encoder has."""
    model = randomised(t5.describe(**(OURS | arguments | {"decoder_layers": 2})).build(), seed, 0.8)
    save_model(tmp_path, model, meta={"ids": {"bos": 0, "eos": 3}})
    answers_parity(model, transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path), start=0, eos=3)


@pytest.mark.parametrize(("config", "factor"), [({}, 0.25), ({"tie_word_embeddings": False}, 1.0)])
def test_ckpt_03_output_scale_and_scores(theirs, halves_parity, tmp_path, recorded, config, factor):
    """S-CKPT-03: width 16. Tied: hidden vectors × 0.25 before the head; untied: no factor; scores are never divided."""
    other = theirs(**config)
    model, description, _ = load_model(tmp_path / "theirs")
    assert description.head.scale == factor
    assert {m.scale for m in model.modules() if hasattr(m, "explain")} == {1.0}
    inputs, outputs = torch.tensor([[5, 6, 7]]), torch.tensor([[0, 8, 9]])
    answer, (hidden,) = recorded([model.decoder.last_norm], lambda: model(inputs, outputs))
    assert torch.allclose(answer.logits, hidden * factor @ model.head.project.weight.T, atol=1e-6)
    halves_parity(model, other, start=0)


def test_ckpt_03_the_older_spelling_of_configurations(theirs, halves_parity, tmp_path):
    """S-CKPT-03: before version 5 a folder says by tie_word_embeddings alone whether outputs are scaled."""
    other = theirs(**UNTIED)
    gone = {"scale_decoder_outputs": None, "dense_act_fn": None, "is_gated_act": None, "dtype": None}
    edit(tmp_path / "theirs", **gone, tie_word_embeddings=False, torch_dtype="float32", n_positions=512)
    model, description, _ = load_model(tmp_path / "theirs")
    assert description == t5.describe(**OURS, **OURS_11)
    halves_parity(model, other, start=0)
    again = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "theirs").eval()
    halves_parity(model, again, sides=("no",), start=0)


def test_tensors_under_older_names(theirs, halves_parity, tmp_path):
    """Copies of the embedding, and a table of cross-attention's positions that nothing reads."""
    from safetensors.torch import load_file, save_file

    other = theirs()
    path = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(path)
    for name in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tensors["shared.weight"].clone()
    tensors["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.zeros(32, 4)
    save_file(tensors, path, metadata={"format": "pt"})
    model, description, _ = load_model(tmp_path / "theirs")
    assert description.tied == "all"
    halves_parity(model, other, sides=("no",), start=0)


@pytest.mark.parametrize("gate", ["", "gated-"])
def test_ckpt_04_activation_is_read(theirs, halves_parity, tmp_path, gate):
    """S-CKPT-04: relu, gelu and swish differ, each equals the reference; another name is refused."""
    seen = []
    for name in ("relu", "gelu", "silu", "gelu_new"):
        other = theirs(feed_forward_proj=gate + name)
        model, _, _ = load_model(tmp_path / "theirs")
        halves_parity(model, other, sides=("no",), start=0)
        seen.append(model(torch.tensor([[5, 6, 7]]), torch.tensor([[0, 8, 9]])).logits)
    different = seen[:3] if gate else seen  # a gate's gelu is the tanh form already
    for i, a in enumerate(different):
        assert all((a - b).abs().max() > 1e-6 for b in different[:i])
    edit(tmp_path / "theirs", feed_forward_proj="foo")
    with pytest.raises(UserError, match="feed_forward_proj is 'foo', must be"):
        load_model(tmp_path / "theirs")


def test_configuration_is_refused_by_name_in_one_error(theirs, tmp_path):
    theirs()
    edit(tmp_path / "theirs", d_kv=None, is_encoder_decoder=False)
    with pytest.raises(UserError) as error:
        load_model(tmp_path / "theirs")
    for words in ("d_kv is missing", "is_encoder_decoder is False"):
        assert words in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("arguments", [{}, OURS_11, {"scaled": False, "decoder_layers": None}])
def test_arguments_are_read_off_a_description(arguments):
    description = t5.describe(**(OURS | arguments))
    found = t5.arguments(description)
    assert found is not None
    assert t5.describe(**found) == description
    other = dataclasses.replace(description, head=dataclasses.replace(description.head, bias=True))
    assert t5.arguments(other) is None


def test_both_embeddings_are_one_matrix():
    model = t5.describe(**OURS, **OURS_11).build()
    assert model.encoder.embed.tokens.weight is model.decoder.embed.tokens.weight
    assert model.head.project.weight is not model.decoder.embed.tokens.weight


def test_initial_weights_make_scores_and_logits_of_order_one():
    torch.manual_seed(0)
    model = t5.describe(vocab_size=200, num_layers=1, d_model=128, d_ff=256, num_heads=4, head_dim=32).build().eval()
    t5.initialise(model)
    assert abs(model.encoder.embed.tokens.weight.std().item() - 1.0) < 0.02
    attention = next(m for m in model.modules() if isinstance(m, MultiHeadAttention))
    queries, keys, _ = attention.qkv.weight.chunk(3)
    assert abs(queries.std().item() * (128 * 32) ** 0.5 - 1) < 0.05
    assert abs(keys.std().item() * 128**0.5 - 1) < 0.05
    logits = model(torch.randint(1, 200, (2, 9)), torch.randint(1, 200, (2, 9))).logits
    assert 0.3 < logits.std() < 3
