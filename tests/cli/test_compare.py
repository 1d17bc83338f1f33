"""regard compare, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from regard import cli, translator

REFERENCES = ["one two three four five six", "a b c d e f g h", "x y z x y z"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    def write(name: str, lines: list[str]) -> str:
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
        return str(tmp_path / name)

    (tmp_path / "model").mkdir()
    return {
        "source": write("source", ["s", "s " * 7, "s"]),
        "reference": write("reference", REFERENCES),
        "bad": write("bad", ["one two", "a b c d e", "x"]),
        "good": write("good", REFERENCES),
        "short": write("short", REFERENCES[:2]),
        "model": str(tmp_path / "model"),
        "json": str(tmp_path / "out.json"),
    }


def test_two_files_are_compared(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", files["reference"], files["bad"], files["good"], "--source", files["source"]]
    assert cli.main([*arguments, "--samples", "50", "--seed", "3", "--buckets", "5", "--json", files["json"]]) == 0
    said = capsys.readouterr().out
    assert "50 resamples, seed 3" in said
    assert "B is better" in said
    document = json.loads(Path(files["json"]).read_text(encoding="utf-8"))
    assert document["names"] == [files["bad"], files["good"]]
    assert [bucket["lengths"] for bucket in document["buckets"]] == ["1-5", "over 5"]
    assert document["tests"][0]["second"]["score"] == pytest.approx(100)


def test_a_model_folder_translates_the_sources(
    files: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Told:
        meta: ClassVar[dict[str, Any]] = {}
        model = torch.nn.Linear(2, 3)

        def translate(self, texts: list[str], **search: Any) -> list[str]:
            assert (texts, search) == (["s", "s " * 7, "s"], {"num_beams": 2})
            return REFERENCES

    monkeypatch.setattr(torch.nn.Linear, "device", torch.device("cpu"), raising=False)
    monkeypatch.setattr(translator, "load", lambda folder: Told())
    arguments = ["compare", files["reference"], files["model"], files["good"], "--samples", "5", "--json", "-"]
    assert cli.main([*arguments, "--source", files["source"], "--num-beams", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["tests"][0]["difference"] == 0
    (cost,) = document["costs"]
    assert (cost["name"], cost["parameters"], cost["megabytes"]) == (files["model"], 9, 36e-6)
    assert cost["seconds"] > 0
    assert cli.main(arguments) == 2
    assert "--source FILE" in capsys.readouterr().err
    Told.meta = {"preprocess": ["no-stress"]}
    assert cli.main([*arguments, "--source", files["source"]]) == 2
    assert "give --preprocess no-stress" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{reference}", "{bad}", "{short}"], "3 lines"),
        (["{reference}", "{bad}", "{good}", "--seed", "0"], "seed must be 1 or more"),
        (["{reference}", "{bad}", "{good}", "--buckets", "few"], "--buckets takes lengths"),
        (["{reference}", "{bad}", "{good}", "--metrics", "bert"], "unknown metric 'bert'"),
        (["{reference}", "{bad}", "missing"], "missing"),
    ],
)
def test_mistakes_are_one_line_and_exit_2(
    arguments: list[str], message: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compare", *(argument.format(**files) for argument in arguments)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_steps_are_done_to_the_references(files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", files["reference"], files["good"], files["good"], "--source-lang", "en", "--target-lang", "en"]
    assert cli.main([*arguments, "--preprocess", "moses-lc", "--samples", "2", "--json", "-"]) == 0
    assert "tok:none" in json.loads(capsys.readouterr().out)["tests"][0]["signature"]


def test_unknown_words_frequency_and_the_page(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learned = tmp_path / "learned"
    learned.write_text("s\n" * 3, encoding="utf-8")
    page = tmp_path / "page.html"
    arguments = ["compare", files["reference"], files["bad"], files["good"], "--source", files["source"], "--samples", "3"]
    more = ["--train-source", str(learned), "--train-target", files["reference"], "--html", str(page), "--json", "-"]
    assert cli.main([*arguments, *more]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [test["metric"] for test in found["tests"]] == ["bleu", "chrf", "ter"]
    assert [(row["lengths"], row["sentences"]) for row in found["unknown"]] == [("0", 3)]
    assert found["counted"] == "training text"
    assert [row["frequency"] for row in found["words"]] == ["1", "2-4"]
    assert "one two three" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--metrics", "comet"], "give --comet FILE"),
        (["--comet", "nowhere"], "COMET needs the package unbabel-comet"),
        (["--train-source", "{reference}"], "give --source FILE as well"),
        (["--html", "/nowhere/at/all"], "there is no folder /nowhere/at"),
    ],
)
def test_what_is_missing_is_said_at_once(
    more: list[str], message: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["compare", files["reference"], files["bad"], files["good"], *more]
    assert cli.main([argument.format(**files) for argument in arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
