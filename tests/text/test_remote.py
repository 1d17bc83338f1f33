"""Files by patterns and addresses."""

from __future__ import annotations

import gzip
from pathlib import Path

import fsspec
import pytest

from regard.errors import UserError
from regard.text.remote import at_hand, expand, files_of, identity, pairs_of


@pytest.fixture
def far() -> str:
    """Two packed TSV files at an address in memory."""
    memory = fsspec.filesystem("memory")
    for name, text in (("b.tsv.gz", "three\tdrei\n"), ("a.tsv.gz", "one\teins\ntwo\tzwei\n")):
        memory.pipe(f"/corpus/{name}", gzip.compress(text.encode()))
    return "memory://corpus"


def test_patterns_name_files_in_order(tmp_path: Path) -> None:
    for name in ("part-2.tsv", "part-1.tsv", "other.tsv"):
        (tmp_path / name).write_text("a\tb\n", encoding="utf-8")
    assert [Path(name).name for name in expand(f"{tmp_path}/part-*.tsv")] == ["part-1.tsv", "part-2.tsv"]
    with pytest.raises(UserError, match="no such file"):
        expand(f"{tmp_path}/no-*.tsv")


def test_line_files_come_in_twos(tmp_path: Path) -> None:
    for name in ("1.en", "2.en", "1.fr", "2.fr"):
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    files = files_of(f"{tmp_path}/*.en, {tmp_path}/*.fr", "en", "fr")
    found = [(pair.source, pair.target) for each in files for pair in pairs_of(each, "en", "fr")]
    assert found == [("1.en", "1.fr"), ("2.en", "2.fr")]
    (tmp_path / "2.fr").unlink()
    with pytest.raises(UserError, match="names 2 and 1 files"):
        files_of(f"{tmp_path}/*.en,{tmp_path}/*.fr", "en", "fr")


def test_a_prefix_and_a_file_mean_what_they_mean_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "t.en").write_text("a\n", encoding="utf-8")
    (tmp_path / "t.fr").write_text("b\n", encoding="utf-8")
    assert files_of(str(tmp_path / "t"), "en", "fr") == [(str(tmp_path / "t.en"), str(tmp_path / "t.fr"))]
    with pytest.raises(UserError, match="no such file"):
        files_of(str(tmp_path / "u"), "en", "fr")


def test_addresses_are_read_like_files(far: str) -> None:
    files = files_of(f"{far}/*.tsv.gz", "en", "de")
    found = [(pair.source, pair.line) for each in files for pair in pairs_of(each, "en", "de")]
    assert found == [("one", 1), ("two", 2), ("three", 1)]
    with at_hand(files[0][0]) as path:
        assert path.name == "a.tsv.gz"
    assert not path.exists()
    with pytest.raises(UserError, match="no such file"):
        expand(f"{far}/nothing.tsv")


def test_a_changed_file_is_another(tmp_path: Path, far: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tb\n", encoding="utf-8")
    before = identity(str(path))
    path.write_text("a\tbc\n", encoding="utf-8")
    assert identity(str(path)) != before
    assert identity(f"{far}/a.tsv.gz") == identity(f"{far}/a.tsv.gz")


def test_an_address_that_nothing_opens_is_one_line() -> None:
    with pytest.raises(UserError, match="cannot be opened") as caught:
        expand("nowhere://bucket/*.tsv")
    assert "\n" not in str(caught.value)
