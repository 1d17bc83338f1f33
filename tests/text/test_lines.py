"""What a line is, and what is said about files that are not what they seem."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.text.lines import base_name, read_lines

PLAIN = "un\nzwei drei\n\n四\n".encode()
PACK = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstandard.compress}


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def error_of(path: Path) -> str:
    with pytest.raises(UserError) as raised:
        list(read_lines(path))
    assert "\n" not in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\u0085", "\u000b", "\u000c", "\u001c", "\u001d", "\u001e"])
def test_s_data_01_only_line_ends_end_a_line(tmp_path: Path, odd: str) -> None:
    path = put(tmp_path / "t", f"one\ntw{odd}o\nthree\n".encode())
    assert list(read_lines(path)) == ["one", f"tw{odd}o", "three"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\rc", ["a", "b", "c"]),
        (b"a\rb\r", ["a", "b"]),
        (b"a\r\r\nb", ["a", "", "b"]),
        (b"a\n\n   \nb\n", ["a", "", "   ", "b"]),
        (b"\n\n\n", ["", "", ""]),
    ],
)
def test_line_ends_and_s_data_02_blank_lines(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    assert list(read_lines(put(tmp_path / "t", content))) == lines


@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\ufeff"))))
@settings(max_examples=50, deadline=None)
def test_any_lines_come_back(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    path = tmp_path_factory.mktemp("lines") / "t"
    for end in ("\n", "\r\n", "\r"):
        put(path, "".join(line + end for line in lines).encode())
        assert list(read_lines(path)) == lines


@pytest.mark.parametrize("kind", PACK)
def test_packed_files_are_known_by_content(tmp_path: Path, kind: str) -> None:
    expected = list(read_lines(put(tmp_path / "plain.txt", PLAIN)))
    for name in (f"train.{kind}", "train.txt", "train"):
        assert list(read_lines(put(tmp_path / name, PACK[kind](PLAIN)))) == expected
    assert list(read_lines(put(tmp_path / "two", PACK[kind](PLAIN) + PACK[kind](PLAIN)))) == expected * 2


@pytest.mark.parametrize("kind", PACK)
def test_s_data_09_cut_off_and_misnamed_files_are_named(tmp_path: Path, kind: str) -> None:
    whole = PACK[kind](bytes(range(256)) * 400 + PLAIN * 50)
    for cut in (len(whole) // 2, len(whole) - 1):
        assert error_of(put(tmp_path / f"cut.{kind}", whole[:cut])).startswith(f"{tmp_path / f'cut.{kind}'}")
    message = error_of(put(tmp_path / f"plain.{kind}", PLAIN))
    assert f"plain.{kind}: is named .{kind} but its content is plain" in message


def test_s_data_04_bad_utf8_names_file_line_and_byte(tmp_path: Path) -> None:
    path = put(tmp_path / "latin.txt", b"one\ntwo\ncaf\xe9\nfour\nfive\n")
    assert f"{path}:3: is not UTF-8 (byte 0xE9 at position 4" in error_of(path)
    path = put(tmp_path / "mac.txt", b"one\rtwo\rcaf\xe9\rfour")
    assert f"{path}:3: is not UTF-8" in error_of(path)


def test_a_byte_order_mark_is_dropped_and_utf16_is_named(tmp_path: Path) -> None:
    assert list(read_lines(put(tmp_path / "bom", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"))) == ["a", "\ufeffb"]
    for encoding in ("utf-16", "utf-16-be"):
        message = error_of(put(tmp_path / "wide", ("\ufeff" * encoding.endswith("be") + "a\n").encode(encoding)))
        assert "wide:1: looks like UTF-16" in message


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    assert "nowhere: cannot be read (No such file or directory)" in error_of(tmp_path / "nowhere")
    assert "cannot be read (Is a directory)" in error_of(tmp_path)


def test_names_without_their_packing() -> None:
    assert base_name("a/B.TSV.gz") == "b.tsv"
    assert base_name("b.jsonl") == "b.jsonl"
