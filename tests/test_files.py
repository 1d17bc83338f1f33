"""Files written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard import files


def test_a_failure_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.txt"
    files.write_text(path, "żółć\n")
    assert path.read_bytes() == "żółć\n".encode()

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        files.write_text(path, "other")
    assert path.read_bytes() == "żółć\n".encode()
    assert list(tmp_path.iterdir()) == [path]


def test_json_to_a_file_and_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files.write_json(tmp_path / "x.json", {"a": "é"})
    files.write_json("-", {"a": "é"})
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == json.loads(capsys.readouterr().out) == {"a": "é"}
