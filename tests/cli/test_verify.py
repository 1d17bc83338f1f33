"""regard verify."""

from __future__ import annotations

import json

import pytest
import torch

from regard.checkpoints import verify as library
from regard.checkpoints.folders import load_model, save_model
from regard.cli import main
from regard.models import transformer

pytest.importorskip("transformers")


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(3)
    model = transformer.describe(vocab_size=23, num_layers=1, d_model=16, d_ff=32, num_heads=4).build().eval()
    save_model(tmp_path, model, meta={"ids": {"bos": 2, "eos": 3}})
    return tmp_path


def test_equal_and_different(folder, capsys, monkeypatch):
    """Exit code 0 and a certificate; 1 where they differ, with the layer's name; the certificate says so too."""
    assert main(["verify", str(folder), "--length", "9", "--json", str(folder / "own.json")]) == 0
    shown = capsys.readouterr()
    assert "equal: no layer departs" in shown.out
    assert "certificate: " in shown.err
    assert json.loads((folder / "verify.json").read_text(encoding="utf-8"))["equal"] is True
    assert (folder / "own.json").is_file()

    def load(path, dtype):
        model, description, meta = load_model(path, dtype=dtype)
        model.encoder.blocks[0].attention_norm.bias.data += 0.1
        return model, description, meta

    monkeypatch.setattr(library, "load_model", load)
    assert main(["verify", str(folder), "--length", "9", "--dtype", "float32", "--json", "-"]) == 1
    shown = capsys.readouterr()
    assert "differs: encoder block 0 is the first layer that departs" in shown.err
    told = json.loads(shown.out)
    assert told["first_departure"] == {
        "layer": "encoder block 0",
        "dtype": "float32",
        "case": told["first_departure"]["case"],
    }
    assert json.loads((folder / "verify.json").read_text(encoding="utf-8"))["equal"] is False


def test_mistakes_end_with_2(folder, capsys):
    for arguments, says in (
        (["--reference", "keras"], "the only one is transformers"),
        (["--dtype", "int8"], "choose from"),
    ):
        assert main(["verify", str(folder), *arguments]) == 2
        shown = capsys.readouterr().err
        assert says in shown
        assert shown.count("\n") == 1
