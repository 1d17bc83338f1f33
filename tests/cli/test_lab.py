"""regard lab."""

from __future__ import annotations

import json

import pytest

from regard import labs
from regard.cli import main
from regard.labs.frame.values import Result, schema


def test_one_lab_with_its_files(tmp_path, capsys):
    assert main(["lab", "anatomy", "--fast", "--json", str(tmp_path / "own.json"), "--output", str(tmp_path / "out")]) == 0
    assert "Verdict: not as written." in capsys.readouterr().out
    stored = Result.model_validate_json((tmp_path / "own.json").read_text(encoding="utf-8"))
    assert stored.verdict == stored.expected
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["anatomy.json", "anatomy.png", "anatomy.svg"]


def test_sabotage_in_chinese_with_json_on_stdout(capsys):
    assert main(["lab", "anatomy", "--fast", "--break", "--lang", "zh", "--json", "-"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["sabotage"]["en"].startswith("decoder layer i")
    assert "有意破坏: 已被发现" in shown.err


def test_another_verdict_than_the_documented_one_ends_with_1(monkeypatch, capsys):
    from dataclasses import replace

    from regard.labs import anatomy

    monkeypatch.setattr(anatomy, "LAB", replace(anatomy.LAB, expected="holds"))
    assert main(["lab", "anatomy", "--fast"]) == 1
    assert "documented: holds" in capsys.readouterr().out
    assert main(["lab", "anatomy", "--fast", "--break"]) == 1, "the sabotage changed nothing"


def test_all_of_them_with_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(labs, "names", lambda: ["masks", "anatomy"])
    arguments = ["lab", "all", "--fast", "--json", str(tmp_path / "all.json"), "--output", str(tmp_path)]
    assert main(arguments) == 0
    shown = capsys.readouterr()
    assert shown.out.index("L5 masks") < shown.out.index("L6 anatomy")
    text = (tmp_path / "all.json").read_text(encoding="utf-8")
    assert [its["lab"] for its in json.loads(text)] == ["masks", "anatomy"]
    assert [json.loads(line.rstrip(","))["lab"] for line in text.split("\n")[1:-2]] == ["masks", "anatomy"]
    assert "<section>" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_list_and_schema(tmp_path, capsys):
    assert main(["lab", "list", "--json", str(tmp_path / "list.json")]) == 0
    assert "permute" in capsys.readouterr().out
    told = json.loads((tmp_path / "list.json").read_text(encoding="utf-8"))
    assert [its["name"] for its in told] == [lab.name for lab in labs.every()]
    assert main(["lab", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == schema()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["cahce"], "did you mean cache"),
        (["cache", "--fast", "--full"], "choose one"),
        (["cache", "--lang", "fr"], "en or zh"),
    ],
)
def test_mistakes_end_with_2(arguments, says, capsys):
    assert main(["lab", *arguments]) == 2
    shown = capsys.readouterr().err
    assert says in shown
    assert shown.count("\n") == 1
