"""The JSON document of a verb: whole in a file, or on stdout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.cli.documents import write_document
from regard.errors import UserError

DOCUMENT = {"text": "żółć 你好", "value": 1.5, "none": None}


def test_a_file_holds_it_in_utf8(tmp_path: Path) -> None:
    write_document(str(tmp_path / "a.json"), DOCUMENT)
    raw = (tmp_path / "a.json").read_bytes()
    assert json.loads(raw.decode("utf-8")) == DOCUMENT
    assert "你好".encode() in raw
    assert raw.endswith(b"}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_dash_is_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    write_document("-", DOCUMENT)
    assert json.loads(capsys.readouterr().out) == DOCUMENT


def test_a_path_that_cannot_be_written_is_a_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be written"):
        write_document(str(tmp_path / "file/a.json"), DOCUMENT)
