"""regard verify's comparison: equal where it should be, and the first layer named where it is not."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
import torch

from regard.checkpoints import verify as module
from regard.checkpoints.folders import load_model, save_model
from regard.checkpoints.verify import CERTIFICATE, certify, verify
from regard.decoding.options import Hypothesis
from regard.errors import UserError
from regard.layers import frame
from regard.layers.masks import lower
from regard.models import rnn

transformers = pytest.importorskip("transformers")

CONFIG = {"d_model": 16, "vocab_size": 23, "encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 32}
CONFIG |= {"decoder_ffn_dim": 24, "encoder_attention_heads": 4, "decoder_attention_heads": 2, "pad_token_id": 0}
CONFIG |= {"eos_token_id": 3, "bos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny random Marian folder that transformers wrote."""
    torch.manual_seed(7)
    model = transformers.MarianMTModel(transformers.MarianConfig(**CONFIG)).eval()
    for name, tensor in model.named_parameters():
        if "embed_positions" not in name:
            tensor.data.normal_(1.0 if name.endswith("norm.weight") else 0.0, 0.2)
    path = tmp_path_factory.mktemp("marian")
    model.save_pretrained(path)
    return path


def test_an_equal_folder_gets_a_certificate(folder):
    """Every layer of both halves, beyond position 30, without and with padding, in both precisions; greedy and beam ids."""
    report = verify(folder)
    assert report.equal
    names = ["encoder embeddings", "encoder block 0", "encoder block 1", "decoder embeddings", "decoder block 0"]
    assert [layer.name for layer in report.layers] == [*names, "decoder block 1", "logits"]
    for layer in report.layers:
        assert layer.errors["float32"] < 1e-5
        assert layer.errors["float64"] < 1e-10
    assert report.layers[-1].errors["float32"] > 0
    assert report.generated == {"greedy": (3, 3), "beam 4": (3, 3)}
    sides = ["right", "left"]
    assert report.cases == ["9 tokens", "40 tokens", "100 tokens", *(f"100 tokens padded on the {side}" for side in sides)]
    assert "padding moves what transformers itself gives" in report.notes[0]
    told = json.loads(certify(report).read_text(encoding="utf-8"))
    assert told["equal"] is True
    assert told["first_departure"] is None
    assert told["versions"]["transformers"] == transformers.__version__
    assert told["sha256"]["model.safetensors"] == hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    shown = "\n".join(report.lines())
    assert "equal: no layer departs" in shown
    assert "beam 4: 3 of 3" in shown


def spoiled(monkeypatch, change):
    """verify sees a model that `change` altered after it was loaded."""

    def load(folder, dtype):
        model, description, meta = load_model(folder, dtype=dtype)
        with torch.no_grad():
            change(model)
        return model, description, meta

    monkeypatch.setattr(module, "load_model", load)


SPOILS = {
    "encoder embeddings": lambda model: model.encoder.embed.tokens.weight[5].add_(0.01),
    "encoder block 1": lambda model: model.encoder.blocks[1].attention.output.bias[3].add_(0.01),
    "decoder block 0": lambda model: model.decoder.blocks[0].cross.kv.weight.mul_(1.01),
    "logits": lambda model: model.head.register_forward_hook(lambda m, a, out: setattr(out, "logits", out.logits * 1.01)),
}


def seen(layout):
    """The layout with padding among the real tokens."""
    return layout if layout.whole else replace(layout, document=torch.zeros_like(layout.document))


@pytest.mark.parametrize("layer", SPOILS)
def test_the_first_layer_that_departs_is_named(folder, monkeypatch, layer):
    spoiled(monkeypatch, SPOILS[layer])
    report = verify(folder, ["float32"], [9])
    assert not report.equal
    assert report.first is not None
    assert report.first.name == layer
    assert report.json()["first_departure"]["layer"] == layer
    assert f"differs: {layer} is the first layer that departs" in report.lines()[-1]


def test_padding_that_is_seen_is_found(folder, monkeypatch):
    """A mask that lets padding through shows in the padded case, in the first block already."""
    monkeypatch.setattr(frame, "lower", lambda mask, q, k: lower(mask, seen(q), seen(k)))
    report = verify(folder, ["float64"], [40])
    assert report.first is not None
    assert report.first.name == "encoder block 0"
    assert report.first.cases["float64"].startswith("40 tokens padded")


def test_no_number_is_a_departure(folder, monkeypatch):
    spoiled(monkeypatch, lambda model: model.decoder.blocks[1].feedforward.contract.bias.fill_(float("nan")))
    report = verify(folder, ["float32"], [9])
    assert report.first is not None
    assert report.first.name == "decoder block 1"
    assert report.generated["greedy"] == (0, 3)
    assert any("regard generates nothing: the model answers with NaN" in note for note in report.notes)


def test_other_ids_are_a_difference(folder, monkeypatch):
    """Equal layers are not enough: a search that goes another way is told."""
    monkeypatch.setattr(module, "search", lambda model, ids, *_: [[Hypothesis([1], 0.0, 0.0)]] * 3)
    report = verify(folder, ["float64"], [9])
    assert report.first is None
    assert not report.equal
    assert report.lines()[-1] == "differs: the layers are equal, but not what is generated"


def test_what_cannot_be_compared_is_refused(tmp_path, folder):
    save_model(tmp_path, rnn.describe(vocab_size=9, d_model=8).build())
    with pytest.raises(UserError, match="no class of transformers computes this model"):
        verify(tmp_path)
    with pytest.raises(UserError, match="number type float8: choose from float32, float64"):
        verify(folder, ["float8"])


def test_new_weights_have_no_old_certificate(tmp_path, folder):
    model, _, meta = load_model(folder)
    save_model(tmp_path, model, meta=meta)
    certify(verify(tmp_path, ["float32"], [9]))
    assert (tmp_path / CERTIFICATE).is_file()
    save_model(tmp_path, model, meta=meta)
    assert not (tmp_path / CERTIFICATE).exists()
