"""Lines, long lines and documents from the command line."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from regard import cli, translator
from regard.cli.translating import Report
from regard.translator import Translation

SRT = "1\n00:00:01,000 --> 00:00:02,000\nTwo dogs. A man.\n"


class Upper:
    """Translates into capitals."""

    meta: dict[str, Any] = {"source": "en"}  # noqa: RUF012

    def fits(self, text: str) -> bool:
        return True

    def translate(self, texts: list[str], **options: Any) -> list[Translation]:
        self.asked = list(texts)
        return [
            Translation(text, "00:00:09,000 --> 00:00:09,500" if text == "Break." else text.upper(), 0.0, 0.0)
            for text in texts
        ]


@pytest.fixture
def upper(monkeypatch: pytest.MonkeyPatch) -> Upper:
    made = Upper()
    monkeypatch.setattr(translator, "load", lambda *given: made)
    return made


def run(capsysbinary: pytest.CaptureFixture[bytes], *arguments: str, stdin: bytes = b"") -> tuple[int, str, str]:
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin), encoding="ascii")
    try:
        code = cli.main(["translate", "folder", *arguments])
    finally:
        sys.stdin = before
    out, err = capsysbinary.readouterr()
    return code, out.decode("utf-8"), err.decode("utf-8")


@pytest.mark.parametrize("more", [[], ["--format", "auto"]])
def test_a_document_by_its_name(upper: Upper, capsysbinary: Any, tmp_path: Path, more: list[str]) -> None:
    (tmp_path / "a.srt").write_bytes(b"\xef\xbb\xbf" + SRT.replace("\n", "\r\n").encode())
    code, out, err = run(capsysbinary, "-i", str(tmp_path / "a.srt"), *more, "-o", str(tmp_path / "b.srt"))
    assert (code, out, err) == (0, "", "")
    assert (tmp_path / "b.srt").read_bytes().decode() == "\ufeff" + SRT.upper().replace("\n", "\r\n")
    assert upper.asked == ["Two dogs.", "A man."]


@pytest.mark.parametrize(("name", "more"), [("a.txt", []), ("a.srt", ["--format", "lines"])])
def test_lines_by_name_or_wish(upper: Upper, capsysbinary: Any, tmp_path: Path, name: str, more: list[str]) -> None:
    (tmp_path / name).write_text("One. Two.\n\nThree.\n", encoding="utf-8")
    assert run(capsysbinary, "-i", str(tmp_path / name), *more)[:2] == (0, "ONE. TWO.\n\nTHREE.\n")


def test_a_document_from_stdin_to_stdout(upper: Upper, capsysbinary: Any) -> None:
    assert run(capsysbinary, "--format", "srt", stdin=SRT.encode())[:2] == (0, SRT.upper())
    assert run(capsysbinary, "--format", "srt", "--split", "no", stdin=SRT.encode())[:2] == (0, SRT.upper())
    assert upper.asked == ["Two dogs. A man."]
    page = '<p>a <img alt="b c"></p>'
    assert run(capsysbinary, "--format", "html", stdin=page.encode())[1] == '<p>A <img alt="b c"></p>'
    assert run(capsysbinary, "--format", "html", "--attributes", stdin=page.encode())[1] == '<p>A <img alt="B C"></p>'


def test_passages_as_json(upper: Upper, capsysbinary: Any) -> None:
    code, out, _ = run(capsysbinary, "--format", "text", "--jsonl", stdin=b"One. Two.\n\nThree.\n")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [(row["line"], row["source"], row["text"]) for row in rows] == [
        (1, "One. Two.", "ONE. TWO."),
        (2, "Three.", "THREE."),
    ]
    assert [one["text"] for one in rows[0]["sentences"]] == ["ONE.", "TWO."]


def test_what_would_break_a_document_is_told(upper: Upper, capsysbinary: Any) -> None:
    page = SRT + "\n2\n00:00:03,000 --> 00:00:04,000\nBreak.\n"
    code, out, err = run(capsysbinary, "--format", "srt", stdin=page.encode())
    assert code == 0
    assert out.endswith("\nBreak.\n")
    assert err == (
        "passage 2: the translation would have changed the document, the source stands there\n"
        "1 of 2 passages: the translation would have changed the document, the source stands there\n"
    )


def test_long_lines_stay_lines(upper: Upper, capsysbinary: Any) -> None:
    code, out, _ = run(capsysbinary, "--split", "sentences", stdin=b"One.  Two.\n\n Three. \n")
    assert (code, out) == (0, "ONE.  TWO.\n\n THREE. \n")
    assert upper.asked == ["One.", "Two.", "Three."]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--format", "doc"], "there is no format 'doc'; known: auto, text, srt, vtt, markdown, html, po"),
        (["--format", "auto"], "the name (stdin) does not tell the format: say --format text|srt|vtt|markdown|html|po"),
        (["--format", "srt", "text"], "--format is for a document: give --input FILE or stdin, not texts"),
        (["--format", "srt", "--n-best", "2"], "--n-best is for sentences, a document has one translation"),
        (["--split", "sentences", "--n-best", "2"], "--n-best is for sentences, so it goes without --split sentences"),
        (["--split", "words"], "split is 'words', should be sentences or no"),
        (["--format", "srt", "-i", "/nowhere/x.srt"], "No such file or directory: /nowhere/x.srt"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_written_s_cli_07(
    upper: Upper, capsysbinary: Any, tmp_path: Path, arguments: list[str], says: str
) -> None:
    code, out, err = run(capsysbinary, *arguments, "-o", str(tmp_path / "out"), stdin=b"One.\n")
    assert (code, out, err) == (2, "", f"regard: error: {says}\n")
    assert list(tmp_path.iterdir()) == []


def test_bad_utf8_in_a_document_is_named_s_data_04(upper: Upper, capsysbinary: Any) -> None:
    code, _, err = run(capsysbinary, "--format", "text", stdin=b"a\nb\n\xe9\n")
    assert (code, err) == (2, "regard: error: stdin, line 3: byte E9 is not valid UTF-8\n")


def test_the_report_names_ten_and_counts_all(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()
    for _ in range(12):
        report.add(Translation("x", "", 0.0, 0.0))
    report.close()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[-1] == "12 of 12 lines: the translation is empty, the source is not"


class Reading(Upper):
    """One that has learned to read what stands before."""

    meta: dict[str, Any] = {"source": "en", "context": {"sentences": 2, "tokens": 99}}  # noqa: RUF012

    def translate(self, texts: list[str], *, context: Any = None, **options: Any) -> list[Translation]:
        from regard.decoding.context import Context, in_order

        if context and not isinstance(context, list):
            its = context if isinstance(context, Context) else Context(context)
            return in_order(self.translate, texts, its, **{name: options[name] for name in options if name != "details"})
        made = super().translate(texts, **options)
        for n, one in enumerate(made):
            one.text += str(len(context[n])) if context else ""
        return made


def test_lines_are_read_with_those_before_them(monkeypatch: pytest.MonkeyPatch, capsysbinary: Any) -> None:
    monkeypatch.setattr(translator, "load", lambda *given: Reading())
    text = b"One.\nTwo.\nThree.\nFour.\n\nFive.\n"
    assert run(capsysbinary, "--context", "2", stdin=text)[:2] == (0, "ONE.0\nTWO.1\nTHREE.2\nFOUR.2\n\nFIVE.0\n")
    assert (
        run(capsysbinary, "--context", "1", "--split", "sentences", stdin=b"One. Two.\nThree.\n")[1]
        == "ONE.0 TWO.1\nTHREE.1\n"
    )
    assert run(capsysbinary, "--context", "1", "--format", "srt", stdin=SRT.encode())[1].endswith("\nTWO DOGS.0 A MAN.1\n")
    assert run(capsysbinary, "--context", "0", stdin=b"One.\nTwo.\n")[1] == "ONE.\nTWO.\n"


def test_lines_that_come_one_by_one_are_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    from regard.cli.translating import lines

    out = io.BytesIO()
    lines(Reading(), iter([["One."], ["Two.", ""], ["Three."]]), out, False, "no", {"context": 1})
    assert out.getvalue() == b"ONE.0\nTWO.1\n\nTHREE.0\n"


def test_a_model_that_has_not_learned_it_says_so(upper: Upper, capsysbinary: Any, tmp_path: Path) -> None:
    said = "this model has not learned to read sentences before (data.context of its recipe): leave context away"
    out = str(tmp_path / "out")
    assert run(capsysbinary, "--context", "1", "-o", out, stdin=b"One.\n") == (2, "", f"regard: error: {said}\n")
    code, _, err = run(capsysbinary, "--context", "1", "--parts", "5", "-i", "x", "-o", "y")
    assert (code, err) == (
        2,
        "regard: error: --context reads lines in order, --parts side by side: leave one of them away\n",
    )
    assert not (tmp_path / "out").exists()


def test_how_every_translation_begins(upper: Upper, capsysbinary: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: dict[str, Any] = {}
    monkeypatch.setattr(
        Upper, "translate", lambda self, texts, **options: heard.update(options) or [Translation("", "", 0.0, 0.0)]
    )
    assert run(capsysbinary, "One.", "--prefix", "Un", "--complete", "--leave-unknown")[0] == 0
    assert (heard["prefix"], heard["complete"], heard["replace_unknown"]) == ("Un", True, False)
