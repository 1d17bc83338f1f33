"""Tensors written in pieces; pieces of several processes are tried in test_parallel.py."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.api import CheckpointException

from regard.training import pieces


def test_what_was_saved_comes_back_from_files_of_safetensors(tmp_path: Path) -> None:
    tensors = {"optimizer.exp_avg/a.weight": torch.randn(4, 3), "average/b": torch.arange(5.0)}
    pieces.save(tmp_path, dict(tensors))
    [file] = tmp_path.glob("*.safetensors")
    assert load_file(file).keys() == tensors.keys()
    found = {name: torch.zeros_like(value) for name, value in tensors.items()}
    pieces.load(tmp_path, found)
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)


def test_a_full_disk_is_an_oserror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise CheckpointException("save", {0: (OSError(28, "No space left on device"), None)})  # type: ignore[dict-item]

    monkeypatch.setattr(pieces.state_dict_saver, "save", full)
    with pytest.raises(OSError, match="No space left"):
        pieces.save(tmp_path, {})
