"""Pairs written are pairs read."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import UserError
from regard.text.corpus import Pair, open_corpus
from regard.text.write import escaped, parts, write_rows

PAIRS = [Pair("one\u2028", "żółć", 1), Pair("  two", "日本", 2)]


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl", "sub/a"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    written = write_rows(parts(str(tmp_path / name), "en", "pl"), PAIRS, "en", "pl")
    assert len(written) == (2 if name == "sub/a" else 1)
    assert open_corpus(tmp_path / name, "en", "pl") == PAIRS
    assert sorted(written) == sorted(path for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(("name", "text"), [("a.tsv", "x\ty"), ("a.tsv", "x\ny"), ("a", "x\ry"), ("a", "x\ny")])
def test_text_that_does_not_fit_is_refused_before_anything_is_written(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(UserError, match=r"line 7 holds .* write \.jsonl"):
        write_rows(parts(str(tmp_path / name), "en", "fr"), [*PAIRS, Pair("fine", text, 7)], "en", "fr")
    assert not list(tmp_path.iterdir())
    write_rows(parts(str(tmp_path / "a.jsonl"), "en", "fr"), [Pair("fine", text, 1)], "en", "fr")
    assert open_corpus(tmp_path / "a.jsonl", "en", "fr") == [Pair("fine", text, 1)]


def test_names_of_other_formats_are_refused() -> None:
    for name in ("a.tsv.gz", "a.csv", "a.parquet"):
        with pytest.raises(UserError, match=r"is written as \.tsv"):
            parts(name, "en", "fr")


def test_escaped_text_has_no_tab_and_no_line_end() -> None:
    assert escaped("a\tb\nc\\n\r") == r"a\tb\nc\\n\r"
