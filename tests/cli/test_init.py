"""`regard init`: a recipe from one's own text, and what it refuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from regard.cli import main
from regard.training.recipe import load_recipe


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [(f"the small bird {n} sings", f"le petit oiseau {n} chante") for n in range(60)]
    (tmp_path / "my.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8", newline="\n")
    for number, name in enumerate(("my.en.gz", "my.fr.gz")):
        with gzip.open(tmp_path / name, "wt", encoding="utf-8", newline="\n") as file:
            file.write("".join(f"{row[number]}\n" for row in rows))
    lines = [json.dumps({"translation": {"en": a, "fr": b}}) for a, b in rows]
    (tmp_path / "my.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("data", [["my.tsv"], ["my.jsonl"], ["my.en.gz", "my.fr.gz"], ["my.en.gz,my.fr.gz"]])
def test_every_kind_of_file_becomes_the_same_recipe(data: list[str], text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", *data, "--source", "en", "--target", "fr", "--output", "out.yaml", "--json", "-"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["pairs"] == {"train": 54, "valid": 3, "test": 3}
    assert document["files"] == ["out.yaml", "out.train.jsonl", "out.valid.jsonl", "out.test.jsonl"]
    assert "wrote out.yaml" in err
    assert "regard train out.yaml output=runs/out" in err
    assert load_recipe("out.yaml").model_dump()["model"] == document["settings"]["model"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.tsv"], "missing.tsv: no such file"),
        (["a", "b", "c"], "3 files given"),
        (["my.en.gz"], "my.en.gz"),
        (["bad.tsv"], "bad.tsv:3"),
        (["my.tsv", "--valid", "none.tsv"], "none.tsv: no such file"),
        (["my.tsv", "--output", "no/folder/r.yaml"], "no/folder"),
        (["my.tsv", "--output", "my.tsv"], "my.tsv exists and is not overwritten"),
    ],
)
def test_s_cli_07_every_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], said: str, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (text / "bad.tsv").write_bytes(b"a\tb\nc\td\n\xe9\tf\n")
    before = {path: path.read_bytes() for path in text.iterdir()}
    assert main(["init", *arguments, "--source", "en", "--target", "fr"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("regard: error: ")
    assert err.count("\n") == 1, err
    assert said in err
    assert {path: path.read_bytes() for path in text.iterdir()} == before


def test_a_missing_language_is_asked_for(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "my.tsv", "--source", "en"]) == 2
    assert "--target" in capsys.readouterr().err


def test_the_second_call_overwrites_nothing(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["init", "my.tsv", "--source", "en", "--target", "fr"]
    assert main(call) == 0
    before = {path: path.read_bytes() for path in text.iterdir()}
    assert main(call) == 2
    assert "recipe.yaml exists and is not overwritten" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in text.iterdir()} == before
