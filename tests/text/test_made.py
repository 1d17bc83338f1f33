"""Data sets made from others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.text import made
from regard.text.corpus import open_corpus
from regard.text.named import find


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))


def rows(path: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").split("\n") if line]


def test_turns_of_a_play(tmp_path: Path) -> None:
    play = tmp_path / "play.txt"
    play.write_text("".join(f"S{n}:\nI say\nthing {n}.\n\n" for n in range(41)), encoding="utf-8")
    train, val, test = (rows(made.turns(play, split)) for split in ("train", "val", "test"))
    assert (len(train), len(val), len(test)) == (36, 2, 2)
    assert train[0] == {"turn": "S0: I say thing 0. S1:", "answer": "I say thing 1."}
    assert test[-1]["answer"] == "I say thing 40."
    play.write_text("A:\nOne.\n\nB:\nTwo.\n", encoding="utf-8")
    assert rows(made.turns(play, "train")) == []  # another play is another file


def test_pages_and_their_folders(tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    names = [f"library/{n}.po" for n in range(12)] + [f"{n}.po" for n in range(5)] + ["rare/one.po"]
    table.write_text("".join(f"text of {name}\tx\t{name}\nmore\tx\t{name}\n" for name in names), encoding="utf-8")
    splits = {split: rows(made.long_documents([table], split)) for split in ("train", "val", "test")}
    assert {split: len(found) for split, found in splits.items()} == {"train": 11, "val": 3, "test": 3}
    every = [row for found in splits.values() for row in found]
    assert {row["folder"] for row in every} == {"library", "top"}
    assert all(row["text"].endswith(".po more") for row in every)
    assert len({row["text"] for row in every}) == 17


def test_docstrings_and_their_first_lines(tmp_path: Path) -> None:
    root = tmp_path / "lib"
    (root / "tests").mkdir(parents=True)
    long = " ".join(["word"] * 20)
    code = f'def f():\n    """Give what is\n    wanted.\n\n    N {long}\n    """\n\n\n'
    code += f'def g():\n    """Short.\n\n    N {long}"""\n'
    for n in range(40):
        (root / f"m{n}.py").write_text(code.replace("N ", f"{n} "), encoding="utf-8")
    (root / "tests" / "t.py").write_text(code, encoding="utf-8")
    (root / "broken.py").write_text("def", encoding="utf-8")
    found = {split: rows(made.docstrings(split, [root])) for split in ("train", "val", "test")}
    assert sum(map(len, found.values())) == 40
    assert found["train"][0]["summary"] == "Give what is wanted."
    assert found["train"][0]["body"].split()[1:] == ["word"] * 20
    assert found["test"]


def test_they_have_names(data_root: Path) -> None:
    turn = open_corpus(find("shakespeare-turns", "train", "turn", "answer", data_root), "turn", "answer")
    assert len(turn) == 6386
    assert turn[0].target == "Speak, speak."
    pages = open_corpus(find("pythondocs-files", "test", "text", "folder", data_root), "text", "folder")
    assert len(pages) == 66
    assert {"library", "c-api"} <= {page.target for page in pages}
