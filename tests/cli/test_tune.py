"""regard tune: a length penalty found and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import cli


def test_the_best_penalty_is_kept_in_the_folder(
    shared: Any, translator_for: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = translator_for(shared)
    for parameter in made.model.parameters():
        parameter.data.normal_(0.0, 0.4)
    made.search = regard.Search(num_beams=2, max_length=9)
    folder, source, target = (str(tmp_path / name) for name in ("model", "source", "target"))
    made.save(folder)
    texts = ["A dog runs in the park .", "Two men play football ."]
    Path(source).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    wanted = made.translate(texts, num_beams=3, length_penalty=3.0)
    Path(target).write_text("".join(f"{text}\n" for text in wanted), encoding="utf-8")
    arguments = ["tune", folder, "-s", source, "-r", target, "--penalties", "-3,3", "--num-beams", "3", "--metric", "chrf"]
    assert cli.main([*arguments, "--dry-run"]) == 0
    assert "best: 3\n" in capsys.readouterr().out
    assert regard.load(folder).search.length_penalty == 1.0
    assert cli.main([*arguments, "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best"] == {"length_penalty": 3.0, "num_beams": 3}
    assert found["trials"][1]["score"] == pytest.approx(100)
    assert regard.load(folder).translate(texts) == wanted


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "source").write_text("a\n", encoding="utf-8")
    given = ["-s", str(tmp_path / "source"), "-r", str(tmp_path / "source")]
    assert cli.main(["tune", str(tmp_path / "none"), *given]) == 2
    assert "there is no such folder to keep settings in" in capsys.readouterr().err
    assert cli.main(["tune", str(tmp_path), *given, "--penalties", "few"]) == 2
    assert "--penalties takes numbers such as" in capsys.readouterr().err
