"""`regard data`: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.cli import main

ROWS = ["one\tun", "two\tdeux", "copy\tcopy", "\tvide", "one\tun", "three\ttrois", "a\t" + "long " * 30]


@pytest.fixture
def tsv(tmp_path: Path) -> str:
    path = tmp_path / "my.tsv"
    path.write_text("".join(row + "\n" for row in ROWS), encoding="utf-8")
    return str(path)


def data(*arguments: str) -> int:
    return main(["data", *arguments, "--source", "en", "--target", "fr"])


def test_check_reports_faults_with_their_lines(tsv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert data("check", tsv, "--json", str(tmp_path / "report.json")) == 0
    printed = capsys.readouterr().out.split("\n")
    assert printed[0] == "7 pairs, 4 with faults"
    assert "found 1 with an empty side: line 4" in printed
    assert "found 1 that repeat an earlier pair: line 5" in printed
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert {name: found["lines"] for name, found in report["rules"].items()} == {
        "copy": [3],
        "empty": [4],
        "duplicate": [5],
        "max_ratio": [7],
    }
    assert Path(tsv).read_text(encoding="utf-8").count("\n") == 7


def test_json_on_stdout_is_one_document(tsv: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert data("check", tsv, "--json", "-") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["total"] == 7
    assert "7 pairs" in printed.err


def test_clean_writes_what_passes(tsv: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output, dropped = tmp_path / "good.tsv", tmp_path / "bad.tsv"
    assert data("clean", tsv, "--output", str(output), "--dropped", str(dropped)) == 0
    assert output.read_text(encoding="utf-8") == "one\tun\ntwo\tdeux\nthree\ttrois\n"
    rows = [row.split("\t")[:2] for row in dropped.read_text(encoding="utf-8").split("\n")[1:-1]]
    assert rows == [["3", "copy"], ["4", "empty"], ["5", "duplicate"], ["7", "max_ratio"]]
    assert "7 pairs, 3 kept" in capsys.readouterr().out
    assert data("check", str(output)) == 0
    assert "3 pairs, 0 with faults" in capsys.readouterr().out


def test_rules_can_be_turned_off_and_changed(tsv: str, tmp_path: Path) -> None:
    output = str(tmp_path / "all")
    keep = [part for name in ("empty", "copies", "duplicates") for part in ("--keep", name)]
    assert data("clean", tsv, "--output", output, *keep, "--max-ratio", "0", "--max-words", "29") == 0
    assert len(Path(f"{output}.en").read_text(encoding="utf-8").split("\n")) == 7
    assert Path(f"{output}.fr").read_text(encoding="utf-8").startswith("un\ndeux\ncopy\nvide\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "nowhere.tsv"], "nowhere.tsv: no such file"),
        (["clean", "{tsv}", "--output", "{tsv}"], "my.tsv: exists and is not overwritten"),
        (["clean", "{tsv}", "--output", "new.tsv", "--keep", "everything"], "--keep everything is not known"),
        (["clean", "{tsv}", "--output", "new.tsv", "--max-characters", "1"], "no pair passes"),
        (["clean", "{tsv}", "--output", "new.csv"], "is written as .tsv"),
        (["check", "{tsv}", "--max-words", "-1"], "max_words=-1 must be at least 1"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(
    tsv: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert data(*[part.format(tsv=tsv) for part in arguments]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["my.tsv"]


def test_faulty_files_end_with_2_and_their_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.en").write_bytes(b"x\ny\n")
    (tmp_path / "a.fr").write_bytes(b"x\n")
    assert data("check", str(tmp_path / "a")) == 2
    assert "a.en has 2 lines and" in capsys.readouterr().err
    (tmp_path / "a.fr").write_bytes(b"x\n\xe9\n")
    assert data("check", str(tmp_path / "a")) == 2
    assert "a.fr:2: is not UTF-8" in capsys.readouterr().err


def test_named_sets_are_listed_and_checked(
    data_root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "list"]) == 0
    assert "multi30k        29,000 image captions" in capsys.readouterr().out
    monkeypatch.setenv("REGARD_DATA", str(data_root))
    assert data("check", "multi30k", "--split", "val") == 0
    assert "1,014 pairs, 0 with faults" in capsys.readouterr().out
