"""Lines in and out for all verbs (what test_translate says of lines holds for all)."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest

from regard.cli.streams import Writer, argument, chunks, heard, one_line, out
from regard.errors import UserError


def test_arguments_or_a_file() -> None:
    assert list(chunks(["a", "b"], None, "lines")) == [["a", "b"]]
    with pytest.raises(UserError, match="give either texts or --input FILE, not both"):
        chunks(["a"], "file", "lines")
    with pytest.raises(UserError, match="is not valid UTF-8"):
        argument("caf\udce9")


def test_a_file_is_read_in_windows(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("".join(f"{n}\n" for n in range(5000)), encoding="utf-8")
    found = list(chunks(None, str(tmp_path / "in"), "lines"))
    assert [len(chunk) for chunk in found] == [2048, 2048, 904]


def test_answers_as_lines_as_json_lines_and_as_a_document(tmp_path: Path) -> None:
    rows = [("a\nb", {"x": 1}), ("é", {"x": 2})]
    file = io.BytesIO()
    Writer(file).answers(rows)
    assert file.getvalue().decode() == "a b\né\n"
    file = io.BytesIO()
    writer = Writer(file, jsonl=True, document=str(tmp_path / "all.json"))
    writer.answers(rows)
    writer.close("answers")
    assert [json.loads(line) for line in file.getvalue().splitlines()] == [{"line": 1, "x": 1}, {"line": 2, "x": 2}]
    told = json.loads((tmp_path / "all.json").read_text("utf-8"))
    assert told == {"answers": [{"line": 1, "x": 1}, {"line": 2, "x": 2}]}
    assert one_line("a\r\n\nb") == "a b"


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def broken() -> None:
        with out(str(tmp_path / "out")) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken()
    assert list(tmp_path.iterdir()) == []


def test_a_logger_is_as_before_whatever_happens() -> None:
    log = logging.getLogger("regard.translator")
    before = log.level

    def fail() -> None:
        with heard("regard.translator", logging.ERROR):
            assert not log.isEnabledFor(logging.WARNING)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert log.level == before
