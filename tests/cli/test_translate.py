"""regard translate: a line out for a line in, whatever is in the lines."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import cli, translator
from regard.cli.streams import lines_of
from regard.decoding import Search
from regard.models import transformer
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translation, Translator

ODD = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"]


class Upper:
    """Translates into capitals."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[str], dict[str, Any]]] = []

    def translate(self, texts: list[str], *, details: bool, first: int, **options: Any) -> list[Translation]:
        assert details
        self.lines = 0 if first == 0 else self.lines
        assert first == self.lines
        self.lines += len(texts)
        self.asked.append((list(texts), options))
        return [self._one(text, options.get("num_return", 1)) for text in texts]

    def _one(self, text: str, count: int) -> Translation:
        if not text.strip():
            return Translation(text, "", 0.0, 0.0)
        made = [
            Translation(text, text.upper() + "!" * n, -0.5 - n, -1.0 - 2 * n, finished="cut" not in text)
            for n in range(count)
        ]
        made[0].truncated, made[0].alternatives = "long" in text, made[1:]
        made[0].text = "" if text == "silence" else made[0].text
        return made[0]


@pytest.fixture
def upper(monkeypatch: pytest.MonkeyPatch) -> Upper:
    made = Upper()
    monkeypatch.setattr(translator, "load", lambda *given: made)
    return made


def run(capsysbinary: pytest.CaptureFixture[bytes], *arguments: str, stdin: bytes | None = None) -> tuple[int, str, str]:
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin or b""), encoding="ascii")
    try:
        code = cli.main(["translate", "folder", *arguments])
    finally:
        sys.stdin = before
    out, err = capsysbinary.readouterr()
    return code, out.decode("utf-8"), err.decode("utf-8")


def test_texts_as_arguments(upper: Upper, capsysbinary: Any) -> None:
    assert run(capsysbinary, "one żółć", "", "two") == (0, "ONE ŻÓŁĆ\n\nTWO\n", "")


def test_blank_lines_stay_s_data_02(upper: Upper, capsysbinary: Any) -> None:
    assert run(capsysbinary, stdin=b"a\n\n   \nb\n")[:2] == (0, "A\n\n\nB\n")
    assert run(capsysbinary, stdin=b"\n \n\n")[:2] == (0, "\n\n\n")
    assert run(capsysbinary, stdin=b"") == (0, "", "")


@pytest.mark.parametrize("odd", ODD)
def test_only_line_ends_end_lines_s_data_01(upper: Upper, capsysbinary: Any, odd: str, tmp_path: Path) -> None:
    text = f"one\ntwo{odd}two\r\nthree\rfour"
    wanted = ["ONE", f"TWO{odd}TWO", "THREE", "FOUR"]
    code, out, _ = run(capsysbinary, stdin=text.encode())
    assert (code, out.split("\n")) == (0, [*wanted, ""])
    (tmp_path / "in").write_bytes(text.encode())
    code, out, _ = run(capsysbinary, "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"))
    assert (code, out) == (0, "")
    assert (tmp_path / "out").read_bytes().decode().split("\n") == [*wanted, ""]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


class Drip(io.BytesIO):
    """Gives one byte at a time."""

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(1)


@pytest.mark.parametrize(
    "text", [b"a\r\nb\n\rc\r\r\nd", b"\xef\xbb\xbfa\n\xef\xbb\xbfb", b"\n", b"", b"\xef\xbb\xbf", b"\r", b"x\r\n"]
)
def test_pieces_do_not_matter(text: bytes) -> None:
    whole = [line for chunk in lines_of(io.BytesIO(text), "stdin") for line in chunk]
    assert [line for chunk in lines_of(Drip(text), "stdin") for line in chunk] == whole
    wanted = text.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").decode().split("\n")
    assert whole == (wanted if wanted[-1] else wanted[:-1])


def test_lines_are_given_on_as_they_arrive() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream, os.fdopen(write, "wb", buffering=0) as pipe:
        chunks = lines_of(stream, "stdin")
        for n in range(3):
            pipe.write(f"line {n}\n".encode())
            assert next(chunks) == [f"line {n}"]


def test_long_input_in_pieces_s_data_03(upper: Upper, capsysbinary: Any) -> None:
    lines = [f"line {n}" for n in range(5001)]
    code, out, _ = run(capsysbinary, stdin="\n".join(lines).encode())
    assert (code, out) == (0, "".join(f"{line.upper()}\n" for line in lines))
    assert max(len(texts) for texts, _ in upper.asked) <= 2048


def test_bad_utf8_is_named_s_data_04(upper: Upper, capsysbinary: Any, tmp_path: Path) -> None:
    bad = b"a\nb\nc \xe9\nd\n"
    code, _, err = run(capsysbinary, stdin=bad)
    assert code == 2
    assert err == "regard: error: stdin, line 3: byte E9 at place 3 is not valid UTF-8\n"
    (tmp_path / "in").write_bytes(bad)
    code, _, err = run(capsysbinary, "-i", str(tmp_path / "in"), "-o", str(tmp_path / "out"))
    assert code == 2
    assert f"{tmp_path / 'in'}:3" in err
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_alternatives(upper: Upper, capsysbinary: Any) -> None:
    code, out, _ = run(capsysbinary, "a", "b", "--n-best", "2")
    assert code == 0
    assert out == (
        "1 ||| A ||| -1.000000 ||| -0.500000\n1 ||| A! ||| -3.000000 ||| -1.500000\n"
        "2 ||| B ||| -1.000000 ||| -0.500000\n2 ||| B! ||| -3.000000 ||| -1.500000\n"
    )


def test_json_lines(upper: Upper, capsysbinary: Any) -> None:
    code, out, _ = run(capsysbinary, "--jsonl", "--n-best", "2", stdin="é\u2028e\n\n".encode())
    first, second = (json.loads(line) for line in out.removesuffix("\n").split("\n"))
    assert code == 0
    assert (first["line"], first["source"], first["text"], first["score"]) == (1, "é\u2028e", "É\u2028E", -0.5)
    assert first["alternatives"][0]["text"] == "É\u2028E!"
    assert (second["line"], second["text"]) == (2, "")


def test_line_ends_in_answers_become_spaces(upper: Upper, capsysbinary: Any) -> None:
    assert run(capsysbinary, "one\r\ntwo\nthree")[1] == "ONE TWO THREE\n"


def test_options_reach_the_search(upper: Upper, capsysbinary: Any) -> None:
    run(capsysbinary, "a", "--beam-size", "7", "--alpha", "0.6", "--sample", "--seed", "3", "--batch-tokens", "99")
    wanted = {"num_beams": 7, "length_penalty": 0.6, "sample": True, "seed": 3, "batch_tokens": 99, "workers": 1}
    assert upper.asked == [(["a"], wanted)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["a", "--num-beams", "0"], "num_beams must be a whole number from 1 to 1,000, not 0"),
        (["a", "--num-beams", "x"], "num-beams"),
        (["a", "--stopping", "soon"], "standard, first, exhaustive"),
        (["a", "--input", "f"], "not both"),
        (["--input", "/nowhere/at/all"], "/nowhere/at/all"),
        (["a", "--output", "/nowhere/at/all"], "/nowhere/at"),
    ],
)
def test_mistakes(upper: Upper, capsysbinary: Any, arguments: list[str], says: str) -> None:
    code, out, err = run(capsysbinary, *arguments)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.strip().split("\n")) == 1


def test_what_should_not_go_unnoticed_s_beam_08_s_data_07(upper: Upper, capsysbinary: Any) -> None:
    lines = ["fine", "cut", "long", "silence", *["cut"] * 20]
    code, out, err = run(capsysbinary, stdin="\n".join(lines).encode())
    assert code == 0
    assert len(out.split("\n")) == len(lines) + 1
    assert "line 2: the translation was cut by the length limit\n" in err
    assert "line 3: the source is longer than the model reads, its end was left out\n" in err
    assert "line 4: the translation is empty, the source is not\n" in err
    assert "21 of 24 lines: the translation was cut" in err
    assert len(err.strip().split("\n")) == 10 + 1 + 1 + 3


SCRIPT = str(Path(__file__).with_name("capitals.py"))


def program(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHONUTF8", "PYTHONIO"))}
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen([sys.executable, SCRIPT, *arguments], env=env | environment, **pipes)


@pytest.mark.parametrize("arguments", [[], ["żółć"]])
def test_any_locale_s_data_05(arguments: list[str]) -> None:
    process = program(*arguments, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    out, err = process.communicate("żółć\n".encode(), timeout=60)
    assert (process.returncode, out.decode("utf-8"), err) == (0, "ŻÓŁĆ\n", b"")


def test_a_closed_pipe_ends_quietly() -> None:
    process = program()
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"ONE\n"
    process.stdout.close()
    process.stdin.write(b"two\n" * 20_000)
    process.stdin.close()
    assert process.wait(60) != 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_interrupt_exits_with_130() -> None:
    process = program()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"ONE\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err


def test_a_model_folder_translates(tmp_path: Path, capsysbinary: Any) -> None:
    lines = ["the cat sees a dog", "a dog", "the dog sees the cat and a cat"]
    tokenizer = train_tokenizer(lines, Plan(kind="words", vocab_size=30))
    torch.manual_seed(0)
    size = tokenizer.vocab_size
    model = transformer.describe(vocab_size=size, num_layers=1, d_model=16, d_ff=32, num_heads=2).build().eval()
    made = Translator(model, Tokenizers(tokenizer, tokenizer, True), Search(num_beams=2, max_length=6))
    made.save(tmp_path / "model")
    wanted = made.translate([lines[0], "", *lines])
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO("\n".join([lines[0], "", *lines]).encode()))
    try:
        assert cli.main(["translate", str(tmp_path / "model"), "--device", "cpu"]) == 0
    finally:
        sys.stdin = before
    assert capsysbinary.readouterr().out.decode() == "".join(f"{line}\n" for line in wanted)


def test_phrases_glossary_and_kept_parts(upper: Upper, capsysbinary: Any, tmp_path: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("dog\tchien\n", encoding="utf-8")
    given = ["--glossary", str(terms), "--require", "a|b", "--require", "c", "--forbid", "d", "--keep", "tags"]
    code, out, _ = run(capsysbinary, "--jsonl", "--replace-unknown", *given, "one")
    asked = upper.asked[-1][1]
    assert code == 0
    assert asked.pop("glossary").entries == {"dog": ("chien",)}
    assert asked == {
        "require": ["a|b", "c"],
        "forbid": ["d"],
        "keep": ["tags"],
        "replace_unknown": True,
        "confidence": True,
        "workers": 1,
    }
    assert {"flags", "unkept", "alignment", "words"} <= set(json.loads(out))
    code, _, err = run(capsysbinary, "--glossary", str(tmp_path / "none.tsv"), "one")
    assert (code, err.count("\n")) == (2, 1)


def test_unknown_words_are_named(upper: Upper, capsysbinary: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = upper._one
    monkeypatch.setattr(upper, "_one", lambda text, count: dataclasses.replace(usual(text, count), unknown=len(text) % 2))
    err = run(capsysbinary, stdin=b"odd\neven\nodder\n")[2]
    assert re.findall(r"^line (\d): the source has words that the vocabulary lacks", err, re.MULTILINE) == ["1", "3"]
    assert "2 of 3 lines: the source has words" in err


def test_promises_that_were_not_kept_are_named(upper: Upper, capsysbinary: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = upper._one
    monkeypatch.setattr(upper, "_one", lambda text, count: dataclasses.replace(usual(text, count), unkept=["x"]))
    assert "line 1: a phrase, term or part that was promised is not there" in run(capsysbinary, "one")[2]


def test_a_model_of_prepared_text_says_so(upper: Upper, capsysbinary: Any) -> None:
    """Such text is not made here: given plain text it would answer badly, and nobody would know why."""
    upper.meta = {"preprocess": ["moses-lc"]}  # type: ignore[attr-defined]
    code, out, err = run(capsysbinary, "A dog")
    assert (code, out) == (0, "A DOG\n")
    assert err == "note: this model learned from text after moses-lc: give it such text, and expect such\n"
