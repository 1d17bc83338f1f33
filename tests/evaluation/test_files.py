"""Files of translations and scores."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import UserError
from regard.evaluation.files import check_writable, one_line, write_lines


def test_a_text_stays_one_line_and_only_real_line_ends_go() -> None:
    assert one_line("a\nb\r\nc\rd") == "a b c d"
    assert one_line("a\u2028b\u0085c\u000bd") == "a\u2028b\u0085c\u000bd"


def test_s_data_01_as_many_lines_as_texts(tmp_path: Path) -> None:
    """S-DATA-01: three translations are three lines, whatever is inside them."""
    texts = ["a\u2028b\u2029c", "d\u0085e\u000bf\u000cg\u001ch", "i\nj"]
    write_lines(tmp_path / "out", texts)
    raw = (tmp_path / "out").read_bytes()
    assert raw.count(b"\n") == 3
    assert b"\r" not in raw
    assert raw.decode("utf-8").split("\n")[:2] == texts[:2]


def test_a_failed_write_leaves_the_old_file_and_nothing_beside(tmp_path: Path) -> None:
    write_lines(tmp_path / "out", ["old"])
    with pytest.raises(UnicodeEncodeError):
        write_lines(tmp_path / "out", ["new", "\ud800"])
    assert (tmp_path / "out").read_text(encoding="utf-8") == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_places_that_cannot_be_written_are_told_before_the_work(tmp_path: Path) -> None:
    check_writable(None)
    check_writable("-")
    check_writable(tmp_path / "new")
    with pytest.raises(UserError, match="no folder"):
        check_writable(tmp_path / "missing" / "out")
    with pytest.raises(UserError, match="is a folder"):
        check_writable(tmp_path)
