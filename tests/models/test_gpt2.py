"""GPT-2 against transformers' GPT2LMHeadModel and GPT2ForSequenceClassification."""

from __future__ import annotations

import dataclasses
import json
import math

import pytest
import torch
from torch import nn

from regard.checkpoints.folders import load_model, save_model
from regard.errors import UserError
from regard.layers.feedforward import activation
from regard.models import gpt2

transformers = pytest.importorskip("transformers")

PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]
SHAPE = {"vocab_size": 23, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 48, "pad_token_id": 0}
SHAPE |= {"bos_token_id": 2, "eos_token_id": 3}
OURS = {"vocab_size": 23, "d_model": 16, "num_layers": 2, "num_heads": 2, "max_positions": 48, "pad": 0}


@pytest.fixture
def theirs(randomised, tmp_path):
    """A tiny random model of transformers, saved in tmp_path / "theirs"."""

    def make(kind: str = "GPT2LMHeadModel", **config):
        model = randomised(getattr(transformers, kind)(transformers.GPT2Config(**(SHAPE | config))))
        model.save_pretrained(tmp_path / "theirs")
        return model

    return make


@pytest.fixture
def ours(randomised):
    """A tiny random model of regard."""

    def make(**arguments):
        return randomised(gpt2.describe(**(OURS | arguments)).build())

    return make


@pytest.fixture
def check(decoder_parity):
    def compare(mine, other, dtype=torch.float32, tolerance=1e-5, **how):
        its = other.transformer
        decoder_parity(mine, other, (its.drop, *its.h, its.ln_f), dtype, tolerance, **how)

    return compare


def edit(folder, **keys):
    """Change keys of a folder's config.json; None takes one away."""
    path = folder / "config.json"
    config = json.loads(path.read_text(encoding="utf-8")) | keys
    path.write_text(json.dumps({k: v for k, v in config.items() if k not in keys or v is not None}), encoding="utf-8")


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_transformers_folder_opens_here(theirs, check, tmp_path, dtype, tolerance):
    """S-MASK-04, S-POS-05 among others: no padding, padding on the left and on the right, positions beyond 30."""
    other = theirs()
    model, description, meta = load_model(tmp_path / "theirs")
    assert description == gpt2.describe(**OURS)
    assert meta["ids"] == {"pad": 0, "bos": 2, "eos": 3}
    check(model, other, dtype, tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
def test_our_folder_opens_there(ours, check, tmp_path, dtype, tolerance):
    model = ours(d_ff=24, activation="relu", eps=1e-3, tied=False, dropout=0.2, attention_dropout=0.3)
    save_model(tmp_path, model, meta={"ids": {"bos": 2, "eos": 3}})
    other, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert type(other).__name__ == "GPT2LMHeadModel"
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert (other.config.resid_pdrop, other.config.embd_pdrop, other.config.attn_pdrop) == (0.2, 0.2, 0.3)
    check(model, other, dtype, tolerance)
    assert load_model(tmp_path)[1] == model.description


def test_classes_both_ways(theirs, ours, check, tmp_path):
    other = theirs("GPT2ForSequenceClassification", num_labels=3)
    model, description, meta = load_model(tmp_path / "theirs")
    assert description == gpt2.describe(**OURS, head="class", classes=3)
    assert "labels" not in meta  # LABEL_0, LABEL_1, … are no names
    check(model, other, torch.float64, 1e-10)
    model = ours(head="class", classes=4)
    save_model(tmp_path / "ours", model)
    other = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours")
    check(model, other, torch.float64, 1e-10)
    assert load_model(tmp_path / "ours")[1] == model.description


def test_ids_of_greedy_and_beam_search(theirs, generation_parity, tmp_path):
    """S-POS-05: the same for each prompt alone and in a batch padded on the left."""
    other = theirs()
    generation_parity(load_model(tmp_path / "theirs")[0], other)


def test_s_mask_05_new_tokens_stand_at_the_end(ours, sees_one_more_each):
    sees_one_more_each(ours())


def test_s_ckpt_01_projections_are_stored_transposed(theirs, ours, check, tmp_path):
    """S-CKPT-01: width 8, so that the output matrix is square."""
    other = theirs(n_embd=8)
    model, _, _ = load_model(tmp_path / "theirs")
    for mine, block in zip(model.decoder.blocks, other.transformer.h):
        assert torch.equal(mine.attention.output.weight, block.attn.c_proj.weight.T)
        assert not torch.equal(mine.attention.output.weight, block.attn.c_proj.weight)
    check(model, other, sides=("no",))
    model = ours(d_model=8)
    save_model(tmp_path / "ours", model)
    other = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    assert torch.equal(other.transformer.h[0].attn.c_proj.weight, model.decoder.blocks[0].attention.output.weight.T)
    check(model, other, sides=("no",))


@pytest.mark.parametrize(
    ("name", "value"), [("gelu", 0.841345), ("gelu_new", 0.841192), ("gelu_pytorch_tanh", 0.841192), ("silu", 0.731059)]
)
def test_s_ckpt_06_forms_of_gelu(theirs, check, tmp_path, name, value):
    """S-CKPT-06: the exact form and that with tanh, by every name; the model's answers equal the reference's."""
    other = theirs(activation_function=name)
    model, description, _ = load_model(tmp_path / "theirs")
    form = activation(description.decoder.blocks[0].feedforward.activation)
    assert float(form(torch.tensor(1.0, dtype=torch.float64))) == pytest.approx(value, abs=1e-6)
    check(model, other, torch.float64, 1e-10, sides=("no",))


def test_older_spellings(theirs, check, tmp_path):
    """Keys of transformers 4, and the names of the first release: no "transformer." before them, masks among the tensors."""
    from safetensors.torch import load_file, save_file

    other = theirs()
    folder = tmp_path / "theirs"
    edit(folder, dtype=None, torch_dtype="float32", n_ctx=48, attn_pdrop=None, activation_function=None)
    tensors = {name.removeprefix("transformer."): t for name, t in load_file(folder / "model.safetensors").items()}
    for layer in range(2):
        tensors[f"h.{layer}.attn.bias"] = torch.ones(48, 48).tril()[None, None]
        tensors[f"h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    tensors["lm_head.weight"] = tensors["wte.weight"].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    model, description, _ = load_model(folder)
    assert description == gpt2.describe(**OURS)
    check(model, other, sides=("no",))
    tensors["lm_head.weight"] += 1.0
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"lm_head\.weight and transformer\.wte\.weight should be one tied tensor"):
        load_model(folder)


def test_what_regard_does_not_compute_is_refused(theirs, tmp_path):
    theirs()
    keys = {"scale_attn_by_inverse_layer_idx": True, "scale_attn_weights": False, "add_cross_attention": True}
    edit(tmp_path / "theirs", **keys, activation_function="foo")
    with pytest.raises(UserError) as error:
        load_model(tmp_path / "theirs")
    for name in (*keys, "activation_function is 'foo'"):
        assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_arguments_are_read_off_a_description():
    for more in ({}, {"tied": False, "d_ff": 20}, {"head": "class", "classes": 5}, {"embedding_dropout": 0.3}):
        description = gpt2.describe(**OURS, **more)
        assert gpt2.describe(**gpt2.arguments(description)) == description
    odd = dataclasses.replace(description, head=dataclasses.replace(description.head, vocab_size=5))
    assert gpt2.arguments(odd) is None
    assert gpt2.arguments(dataclasses.replace(description, encoder=description.decoder, decoder=None)) is None
    with pytest.raises(ValueError, match="head must be"):
        gpt2.describe(**OURS, head="masked")


def test_initial_weights_are_as_published():
    """Normal with 0.02, what is added to the residual stream 1/sqrt(2 × layers) of that, biases zero, gains one."""
    torch.manual_seed(1)
    model = gpt2.describe(vocab_size=65, **gpt2.SIZES["nano"]).build()
    gpt2.initialise(model)
    for name, tensor in model.named_parameters():
        if tensor.dim() == 1:
            assert torch.equal(tensor, torch.full_like(tensor, float(name.endswith("weight")))), name
            continue
        added = name.endswith(("attention.output.weight", "contract.weight"))
        assert float(tensor.detach().std()) == pytest.approx(0.02 / math.sqrt(8) if added else 0.02, rel=0.05), name
    inner = [m for m in model.modules() if isinstance(m, nn.Linear) and m is not model.head.project]
    assert sum(m.weight.numel() for m in inner) == 4 * 12 * 128**2
