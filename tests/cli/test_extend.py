"""regard extend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import cli


def test_tokens_from_arguments_and_a_file(
    shared: Any, translator_for: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    translator_for(shared).save(tmp_path / "old")
    (tmp_path / "tokens").write_text("Paris\tla maison\n\ncovid\n", encoding="utf-8")
    arguments = ["extend", str(tmp_path / "old"), "-o", str(tmp_path / "new"), "--token", "<2de>"]
    assert cli.main([*arguments, "--tokens", str(tmp_path / "tokens"), "--json", "-"]) == 0
    size = shared.target.vocab_size
    added = json.loads(capsys.readouterr().out)["added"]
    assert [(one["number"], one["name"], one["like"]) for one in added] == [
        (size, "<2de>", "<2de>"),
        (size + 1, "Paris", "la maison"),
        (size + 2, "covid", "covid"),
    ]
    new = regard.load(tmp_path / "new")
    assert new.tokenizer.encode("<2de> A dog")[0] == size
    assert cli.main(arguments) == 2
    assert "is not empty" in capsys.readouterr().err


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["extend", "nothing", "-o", str(tmp_path / "new")]) == 2
    assert "give --token NAME or --tokens FILE" in capsys.readouterr().err
    (tmp_path / "tokens").write_text("a\tb\tc\n", encoding="utf-8")
    assert cli.main(["extend", "nothing", "-o", str(tmp_path / "new"), "--tokens", str(tmp_path / "tokens")]) == 2
    assert "tokens, line 1: should be TOKEN" in capsys.readouterr().err
