"""Mixtral against transformers' MixtralForCausalLM and MixtralForSequenceClassification."""

from __future__ import annotations

import dataclasses
import importlib
import json

import pytest
import torch
from torch.nn import functional as F

from regard.architecture import Targets
from regard.checkpoints.folders import load_model, save_model
from regard.errors import UserError
from regard.layers.experts import expert_load
from regard.layers.heads import IGNORED
from regard.models import llama, mixtral

transformers = pytest.importorskip("transformers")

SHAPE = {"vocab_size": 23, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
SHAPE |= {"num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
SHAPE |= {"num_local_experts": 5, "router_aux_loss_coef": 0.02}
OURS = {"vocab_size": 23, "d_model": 16, "d_ff": 24, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2, "max_positions": 64}
OURS |= {"pad": 0, "experts": 5}
CASES = [
    ({}, {}),
    ({"sliding_window": 7, "num_experts_per_tok": 3, "head_dim": 6}, {"window": 7, "active": 3, "head_dim": 6}),
    ({"tie_word_embeddings": True, "num_experts_per_tok": 1}, {"tied": True, "active": 1}),
]


@pytest.fixture
def theirs(randomised, tmp_path):
    """A tiny random model of transformers, saved in tmp_path / "theirs"."""

    def make(kind: str = "MixtralForCausalLM", saved=None, **config):
        model = randomised(getattr(transformers, kind)(transformers.MixtralConfig(**(SHAPE | config))))
        model.save_pretrained(tmp_path / "theirs", **(saved or {}))
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
    other = theirs(**config)
    model, description, _ = load_model(tmp_path / "theirs")
    assert description == mixtral.describe(**OURS, **arguments)
    check(model, other)
    model = randomised(mixtral.describe(**OURS, **arguments).build(), seed=8)
    save_model(tmp_path / "ours", model, meta={"ids": {"bos": 2, "eos": 3}})
    other, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(other).__name__ == "MixtralForCausalLM"
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    check(model, other)
    assert load_model(tmp_path / "ours")[1] == model.description


def test_names_as_released_and_as_kept_in_memory(theirs, check, tmp_path):
    """One matrix an expert, under block_sparse_moe, as released and as transformers 5 writes them; or all experts stacked,
    under mlp. What regard writes has the names of the release."""
    from safetensors.torch import load_file

    other = theirs()
    names = set(load_file(tmp_path / "theirs" / "model.safetensors"))
    assert "model.layers.1.block_sparse_moe.experts.4.w2.weight" in names
    model, _, _ = load_model(tmp_path / "theirs")
    save_model(tmp_path / "ours", model)
    assert set(load_file(tmp_path / "ours" / "model.safetensors")) == names
    theirs(saved={"save_original_format": False})
    names = set(load_file(tmp_path / "theirs" / "model.safetensors"))
    assert "model.layers.1.mlp.experts.gate_up_proj" in names
    again, _, _ = load_model(tmp_path / "theirs")
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values()))
    check(again, other, sides=("right",))


def test_one_missing_expert_is_named(theirs, tmp_path):
    from safetensors.torch import load_file, save_file

    theirs()
    path = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(path)
    tensors["model.layers.0.block_sparse_moe.experts.3.w4.weight"] = tensors.pop(
        "model.layers.0.block_sparse_moe.experts.3.w3.weight"
    )
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"missing: .*experts\.3\.w3\.weight; unexpected: .*experts\.3\.w4\.weight"):
        load_model(tmp_path / "theirs")


def test_older_spellings(theirs, check, tmp_path):
    other, path = theirs(rope_parameters={"rope_type": "default", "rope_theta": 5e5}), tmp_path / "theirs" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    for key in ("head_dim", "rope_parameters", "dtype", "router_jitter_noise"):
        config.pop(key, None)
    path.write_text(json.dumps(config | {"rope_theta": 5e5, "torch_dtype": "float32"}), encoding="utf-8")
    model, description, _ = load_model(tmp_path / "theirs")
    assert description == mixtral.describe(**OURS, base=5e5)
    check(model, other, sides=("left",))
    path.write_text(json.dumps(config | {"router_jitter_noise": 0.1}), encoding="utf-8")
    with pytest.raises(UserError, match=r"router_jitter_noise is 0\.1, must be None or 0\.0"):
        load_model(tmp_path / "theirs")
    del config["num_local_experts"]
    path.write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(UserError, match=r"experts\.7\.w1\.weight"):  # eight, as the class has it
        load_model(tmp_path / "theirs")


def test_classes_both_ways(theirs, check, tmp_path):
    other = theirs("MixtralForSequenceClassification", num_labels=3)
    model, description, _ = load_model(tmp_path / "theirs")
    assert description == mixtral.describe(**OURS, head="class", classes=3)
    check(model, other)
    save_model(tmp_path / "ours", model)
    check(model, transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours"))


def test_ids_of_greedy_and_beam_search(theirs, generation_parity, tmp_path):
    """S-POS-05: the same for each prompt alone and in a batch padded on the left."""
    other = theirs()
    other.set_experts_implementation("eager")  # its grouped product knows no double precision
    generation_parity(load_model(tmp_path / "theirs")[0], other)


def test_the_training_loss_with_its_penalty_is_the_reference_s(theirs, padded_ids, tmp_path, monkeypatch):
    """Loss and penalty are sums over tokens here and means there; both have the same gradients. The penalty is that of each
    layer here, and there of all layers together: a reference that takes it of each."""
    place = "transformers.models.mixtral.modeling_mixtral.load_balancing_loss_func"
    pooled = importlib.import_module("transformers.models.mixtral.modeling_mixtral").load_balancing_loss_func
    monkeypatch.setattr(place, lambda layers, *more: sum(pooled((one,), *more) for one in layers) / len(layers))
    other = theirs()
    model, _, _ = load_model(tmp_path / "theirs")
    ids = padded_ids("right", 0, 23)
    real = ids != 0
    labels = ids.masked_fill(~real, IGNORED)
    want = other(ids, attention_mask=real.long(), output_router_logits=True, labels=labels)
    following = F.pad(labels[:, 1:], (0, 1), value=IGNORED)
    answer = model.train()(ids, targets=Targets(following))
    tokens = int(real.sum())
    penalty = answer.penalties["imbalance"] / tokens
    torch.testing.assert_close(penalty, 0.02 * want.aux_loss)
    total = answer.loss_sum / answer.count + penalty
    torch.testing.assert_close(total, want.loss)
    total.backward()
    want.loss.backward()
    for mine, layer in zip(model.decoder.blocks, other.model.layers):
        torch.testing.assert_close(mine.feedforward.router.weight.grad, layer.mlp.gate.weight.grad, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(mine.feedforward.expand.grad, layer.mlp.experts.gate_up_proj.grad, rtol=1e-4, atol=1e-6)
    assert not model.eval()(ids).penalties


def test_the_load_of_experts_is_that_of_the_reference(theirs, padded_ids, tmp_path):
    other = theirs()
    model, _, _ = load_model(tmp_path / "theirs")
    ids = padded_ids("left", 0, 23)
    real = ids != 0
    with torch.no_grad():
        routed = other(ids, attention_mask=real.long(), output_router_logits=True).router_logits
        with expert_load(model) as load:
            model(ids)
    assert load.counts.shape == (2, 5)
    for counts, logits in zip(load.counts, routed):
        chosen = logits.view(*ids.shape, 5)[real].topk(2, -1).indices
        assert counts.tolist() == chosen.flatten().bincount(minlength=5).tolist()


def test_arguments_are_read_off_a_description():
    for more in ({}, {"window": 5}, {"head": "class", "classes": 4}, {"imbalance": 0.0, "tied": True, "active": 1}):
        description = mixtral.describe(**OURS, **more)
        assert mixtral.describe(**mixtral.arguments(description)) == description
    assert mixtral.arguments(llama.describe(vocab_size=23)) is None
    assert llama.arguments(description) is None
    assert mixtral.arguments(dataclasses.replace(description, encoder=description.decoder, decoder=None)) is None


def test_nano_has_the_active_weights_of_its_dense_sister():
    """Two of eight experts of half the width, and the router."""
    ours, dense = (its.describe(vocab_size=65, **its.SIZES["nano"]).build() for its in (mixtral, llama))
    block, other = ours.decoder.blocks[0].feedforward, dense.decoder.blocks[0].feedforward
    active = (block.expand.numel() + block.contract.numel()) // 8 * 2
    assert active == sum(tensor.numel() for tensor in other.parameters())
    mixtral.initialise(ours)
    assert float(block.expand.detach().std()) == pytest.approx(0.02, rel=0.05)
