"""Corpora of every format, and what is said when two sides do not fit."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.text.corpus import Pair, PairFiles, Table, open_corpus, read_pairs

ROWS = [("one", "un"), ("two\u2028 2", "deux"), ("three\u0085", "trois")]
PAIRS = [Pair(source, target, number) for number, (source, target) in enumerate(ROWS, 1)]


def put(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


def jsonl(make) -> str:
    return "".join(json.dumps(make(*row), ensure_ascii=False) + "\n" for row in ROWS)


def files(folder: Path) -> PairFiles:
    return PairFiles(
        put(folder / "train.en", "".join(f"{source}\n" for source, _ in ROWS)),
        put(folder / "train.fr", "".join(f"{target}\n" for _, target in ROWS)),
    )


def test_two_line_files_in_every_spelling(tmp_path: Path) -> None:
    both = files(tmp_path)
    assert open_corpus(both, "en", "fr") == PAIRS
    assert open_corpus(f"{both.source},{both.target}", "en", "fr") == PAIRS
    assert open_corpus(str(tmp_path / "train"), "en", "fr") == PAIRS
    assert open_corpus("train", "en", "fr", root=tmp_path) == PAIRS
    assert open_corpus("train.en,train.fr", "en", "fr", root=tmp_path) == PAIRS
    assert open_corpus(PairFiles("train.en", "train.fr"), "en", "fr", root=tmp_path) == PAIRS
    for side in ("en", "fr"):
        (tmp_path / f"packed.{side}.gz").write_bytes(gzip.compress((tmp_path / f"train.{side}").read_bytes()))
    assert open_corpus(tmp_path / "packed", "en", "fr") == PAIRS
    assert [pair.source for pair in open_corpus(tmp_path / "train", "fr", "en")] == [target for _, target in ROWS]


@pytest.mark.parametrize("odd", ["\u2028", "\u2029", "\u0085", "\u000b", "\u000c", "\u001c"])
def test_s_data_01_a_separator_inside_a_line_shifts_nothing(tmp_path: Path, odd: str) -> None:
    put(tmp_path / "a.en", f"one\ntw{odd}o\nthree\n")
    put(tmp_path / "a.fr", "un\ndeux\ntrois\n")
    put(tmp_path / "a.tsv", f"one\tun\ntw{odd}o\tdeux\nthree\ttrois\n")
    put(
        tmp_path / "a.jsonl",
        f'{{"en": "one", "fr": "un"}}\n{{"en": "tw{odd}o", "fr": "deux"}}\n{{"en": "three", "fr": "trois"}}\n',
    )
    specs = ["a", "a.tsv"] + (["a.jsonl"] if odd > "\u001f" else [])
    for spec in specs:
        pairs = open_corpus(spec, "en", "fr", root=tmp_path)
        assert [(pair.source, pair.target) for pair in pairs] == [("one", "un"), (f"tw{odd}o", "deux"), ("three", "trois")]


@pytest.mark.parametrize(("left", "right"), [(5, 3), (3, 5), (0, 1), (4, 0)])
def test_unequal_files_name_both_counts(tmp_path: Path, left: int, right: int) -> None:
    put(tmp_path / "a.en", "x\n" * left)
    put(tmp_path / "a.fr", "y\n" * right)
    with pytest.raises(UserError, match=rf"a\.en has {left} lines and .*a\.fr has {right}; two line files"):
        open_corpus(tmp_path / "a", "en", "fr")


def test_blank_lines_are_pairs_s_data_02(tmp_path: Path) -> None:
    put(tmp_path / "a.en", "a\n\n   \nb\n")
    put(tmp_path / "a.fr", "A\n\n   \nB\n")
    pairs = open_corpus(tmp_path / "a", "en", "fr")
    assert [pair.source for pair in pairs] == ["a", "", "   ", "b"]
    assert open_corpus(put(tmp_path / "a.tsv", "a\tA\n\nb\tB\n"), "en", "fr")[1:] == [Pair("", "", 2), Pair("b", "B", 3)]


def test_tsv_by_number_by_name_and_by_edit(tmp_path: Path) -> None:
    text = "".join(f"{source}\t{target}\tCC-BY {n}\n" for n, (source, target) in enumerate(ROWS))
    assert open_corpus(put(tmp_path / "a.tsv", text), "en", "fr") == PAIRS
    assert open_corpus(put(tmp_path / "a.unknown", text), "en", "fr") == PAIRS
    headed = "id\tfr\ten\n" + "".join(f"{n}\t{target}\t{source}\n" for n, (source, target) in enumerate(ROWS))
    named = open_corpus(put(tmp_path / "b.tsv", headed), "en", "fr")
    assert [(pair.source, pair.target) for pair in named] == ROWS
    assert named[0].line == 2
    table = Table(str(tmp_path / "a.tsv"), 2, 1, edit=lambda source, target, cells: (source + cells[2], target))
    assert open_corpus(table, "", "")[0] == Pair("unCC-BY 0", "one", 1)
    with pytest.raises(UserError, match=r"b\.tsv:1: has no column 'de'; its columns are id, fr, en"):
        open_corpus(Table(str(tmp_path / "b.tsv"), "de", "en", header=True), "de", "en")


@pytest.mark.parametrize(
    "make",
    [
        lambda en, fr: {"translation": {"en": en, "fr": fr}},
        lambda en, fr: {"src": en, "tgt": fr},
        lambda en, fr: {"en": en, "fr": fr, "id": 3},
        lambda en, fr: {"source": en, "target": fr},
    ],
)
def test_jsonl_in_its_usual_forms(tmp_path: Path, make) -> None:
    assert open_corpus(put(tmp_path / "a.jsonl", jsonl(make)), "en", "fr") == PAIRS
    assert open_corpus(put(tmp_path / "a.data", jsonl(make)), "en", "fr") == PAIRS
    with pytest.raises(UserError, match=r"b\.jsonl:1: is not JSON .*surrogates not allowed"):
        open_corpus(put(tmp_path / "b.jsonl", '{"en": "\\ud800", "fr": "a"}'), "en", "fr")


@pytest.mark.parametrize("form", ["flat", "nested"])
def test_parquet(tmp_path: Path, form: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{"en": source, "fr": target} for source, target in ROWS]
    table = pyarrow.Table.from_pylist(rows if form == "flat" else [{"translation": row} for row in rows])
    parquet.write_table(table, tmp_path / "a.parquet")
    assert open_corpus(tmp_path / "a.parquet", "en", "fr") == PAIRS
    content = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match=r"a\.parquet: cannot be read as parquet"):
        open_corpus(tmp_path / "a.parquet", "en", "fr")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1....PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UserError, match=r"needs pyarrow; install it with pip install 'regard\[parquet\]'"):
        open_corpus(tmp_path / "a.parquet", "en", "fr")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "one\tun\nonly\n", "a.tsv:2: has 1 column, at least 2 with tabs between are needed"),
        ("a.tsv", "", "a.tsv: holds no pairs"),
        ("a.jsonl", '{"en": "a", "fr": "b"}\nnonsense\n', "a.jsonl:2: is not JSON"),
        ("a.jsonl", "[" * 100_000 + "\n", "a.jsonl:1: is not JSON"),
        ("a.jsonl", '{"en": "a", "de": "b"}\n', "a.jsonl:1: has 'en', 'de'; 'en' and 'fr' are needed"),
        ("a.jsonl", '{"en": "a", "fr": null}\n', "a.jsonl:1: 'en' and 'fr' must both be text"),
        ("a.jsonl", '["a", "b"]\n', "a.jsonl:1: is not an object"),
        ("a.parquet", "text", "a.parquet: is not a parquet file"),
        ("a.csv", "a,b\n", "a.csv: CSV is not read"),
        ("a.txt", "a\n", "a.txt: has no tab in line 1"),
        ("a.tsv", "a\tb\nc\t\udce9\n", "a.tsv:2: is not UTF-8"),
    ],
)
def test_faulty_files_are_named_with_their_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        open_corpus(tmp_path / name, "en", "fr")
    assert "\n" not in str(raised.value)


def test_missing_files_are_named(tmp_path: Path) -> None:
    put(tmp_path / "a.en", "x\n")
    for spec in ("nowhere.tsv", f"{tmp_path / 'a.en'},{tmp_path / 'nowhere'}", PairFiles("nowhere", "x"), Table("nowhere")):
        with pytest.raises(UserError, match=r"nowhere.*no such file"):
            open_corpus(spec, "en", "fr")
    with pytest.raises(UserError, match="is a folder; give a file"):
        open_corpus(tmp_path, "en", "fr")


def test_pairs_are_read_one_by_one(tmp_path: Path) -> None:
    put(tmp_path / "a.tsv", "a\tb\nbroken\n")
    pairs = read_pairs(tmp_path / "a.tsv", "en", "fr")
    assert next(pairs) == Pair("a", "b", 1)
    with pytest.raises(UserError, match=r"a\.tsv:2"):
        next(pairs)
