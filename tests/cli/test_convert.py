"""regard convert."""

from __future__ import annotations

import json

import pytest
import torch

from regard.checkpoints import convert as ctranslate2
from regard.checkpoints.folders import load_model, save_model
from regard.cli import main
from regard.cli.convert import shard_bytes
from regard.errors import UserError
from regard.models import transformer


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(3)
    model = transformer.describe(vocab_size=23, num_layers=1, d_model=16, d_ff=32, num_heads=4).build().eval()
    save_model(tmp_path / "model", model, meta={"ids": {"bos": 2, "eos": 3}})
    return tmp_path / "model"


def test_a_model_folder_in_another_number_type(folder, tmp_path, capsys):
    output = tmp_path / "half"
    assert main(["convert", str(folder), str(output), "--dtype", "float16", "--shard-size", "4KB", "--json", "-"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {"folder": str(output), "architectures": ["MarianMTModel"], "dtype": "float16"}
    assert f"{output}: MarianMTModel, float16" in shown.err
    assert next(load_model(output)[0].parameters()).dtype == torch.float16
    assert (output / "model.safetensors.index.json").is_file()
    assert main(["convert", str(folder), str(output)]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_folders_of_ctranslate2_go_their_own_way(folder, tmp_path, monkeypatch, capsys):
    seen = []

    def convert(source, output):
        seen.append((source, output))
        save_model(output, load_model(folder)[0])

    monkeypatch.setattr(ctranslate2, "convert_folder", convert)
    (tmp_path / "ct2").mkdir()
    (tmp_path / "ct2" / "model.bin").write_bytes(b"")
    (tmp_path / "ct2" / "config.json").write_text('{"add_source_bos": false}', encoding="utf-8")
    assert main(["convert", str(tmp_path / "ct2"), str(tmp_path / "new"), "--dtype", "float16"]) == 2
    assert "convert the result" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "ct2"), str(tmp_path / "new")]) == 0
    assert seen == [(str(tmp_path / "ct2"), str(tmp_path / "new"))]


def test_sizes():
    assert [shard_bytes(text) for text in ("500MB", "2 gb", "1.5K", "77")] == [500_000_000, 2_000_000_000, 1500, 77]
    for text in ("", "MB", "0", "2TB", "-1GB"):
        with pytest.raises(UserError, match="should be a size such as"):
            shard_bytes(text)
