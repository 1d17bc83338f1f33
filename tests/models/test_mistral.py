"""Mistral against transformers' MistralForCausalLM and MistralForSequenceClassification."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from regard.checkpoints.folders import load_model, save_model
from regard.models import llama, mistral

transformers = pytest.importorskip("transformers")

SHAPE = {"vocab_size": 23, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
SHAPE |= {"num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
SHAPE |= {"sliding_window": 7}
OURS = {"vocab_size": 23, "d_model": 16, "d_ff": 24, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "max_positions": 64}
OURS |= {"pad": 0, "window": 7}
CASES = [
    ({}, {}),
    ({"head_dim": 6, "rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}, {"head_dim": 6, "base": 1e6}),
    ({"sliding_window": None, "tie_word_embeddings": True}, {"window": None, "tied": True}),
]


@pytest.fixture
def theirs(randomised, tmp_path):
    """A tiny random model of transformers, saved in tmp_path / "theirs"."""

    def make(kind: str = "MistralForCausalLM", **config):
        model = randomised(getattr(transformers, kind)(transformers.MistralConfig(**(SHAPE | config))))
        model.save_pretrained(tmp_path / "theirs")
        return model

    return make


@pytest.fixture
def check(decoder_parity):
    def compare(mine, other, **how):
        its = other.model
        decoder_parity(mine, other, (its.embed_tokens, *its.layers, its.norm), **how)

    return compare


@pytest.mark.parametrize(("config", "arguments"), CASES)
def test_both_ways(theirs, randomised, check, tmp_path, config, arguments):
    """40 positions, a window of 7. Without a window the computation is LLaMA's, and its class is named for it."""
    other = theirs(**config)
    model, description, _ = load_model(tmp_path / "theirs")
    assert description == mistral.describe(**(OURS | arguments))
    check(model, other)
    model = randomised(mistral.describe(**(OURS | arguments)).build(), seed=8)
    save_model(tmp_path / "ours", model, meta={"ids": {"bos": 2, "eos": 3}})
    other, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(other).__name__ == ("LlamaForCausalLM" if arguments.get("window", 7) is None else "MistralForCausalLM")
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    check(model, other)
    assert load_model(tmp_path / "ours")[1] == model.description


def test_the_window_matters_and_is_as_wide_as_said(theirs, tmp_path):
    """A change of a token 6 places back changes a block's result, of one 7 places back it does not (one block)."""
    theirs(num_hidden_layers=1)
    model, _, _ = load_model(tmp_path / "theirs")
    ids = torch.randint(4, 23, (1, 20), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        want = model(ids).logits[0, -1]
        for back, same in ((6, False), (7, True)):
            other = ids.clone()
            other[0, 19 - back] = 4 if int(ids[0, 19 - back]) != 4 else 5
            assert torch.equal(model(other).logits[0, -1], want) == same


def test_keys_that_are_left_out_and_older_spellings(theirs, check, tmp_path):
    """A file without head_dim, with rope_theta and torch_dtype, as the first release has it."""
    other, path = theirs(), tmp_path / "theirs" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for key in ("head_dim", "rope_parameters", "dtype", "attention_dropout", "hidden_act"):
        config.pop(key, None)
    path.write_text(json.dumps(config | {"rope_theta": 10000.0, "torch_dtype": "float32"}), encoding="utf-8")
    model, description, _ = load_model(tmp_path / "theirs")
    assert description == mistral.describe(**OURS)
    check(model, other, sides=("left",))


def test_classes_both_ways(theirs, check, tmp_path):
    other = theirs("MistralForSequenceClassification", num_labels=3)
    model, description, _ = load_model(tmp_path / "theirs")
    assert description == mistral.describe(**OURS, head="class", classes=3)
    check(model, other)
    save_model(tmp_path / "ours", model)
    check(model, transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours"))


def test_ids_of_greedy_and_beam_search(theirs, generation_parity, tmp_path):
    """S-POS-05: also for each prompt alone; answers are longer than the window."""
    other = theirs()
    generation_parity(load_model(tmp_path / "theirs")[0], other)


def test_arguments_are_read_off_a_description():
    for more in ({}, {"window": None}, {"head": "class", "classes": 4}, {"dropout": 0.1, "tied": True}):
        description = mistral.describe(**(OURS | more))
        assert mistral.describe(**mistral.arguments(description)) == description
    plain = {name: value for name, value in OURS.items() if name != "window"}
    assert mistral.describe(**(OURS | {"window": None})) == llama.describe(**plain)
    assert mistral.arguments(llama.describe(**plain, attention_bias=True)) is None
    assert mistral.arguments(dataclasses.replace(description, encoder=description.decoder, decoder=None)) is None
