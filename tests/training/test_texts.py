"""Single texts, texts with classes, pairs of texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import UserError
from regard.text.corpus import Pair
from regard.training.recipe import Recipe, read_recipe
from regard.training.texts import BETWEEN, cleaned, labelled, texts


def recipe(data: str, kind: str = "language") -> Recipe:
    return read_recipe(
        f"task: {{kind: {kind}}}\ndata: {{{data}}}\nmodel: {{architecture: gpt2}}\ntraining: {{max_steps: 1}}\n"
    )


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_lines_paragraphs_and_whole_files(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "One.\ntwo\n\n  \nThree.\n")
    found = {unit: texts(recipe(f"train: {path}, unit: {unit}"), "train") for unit in ("line", "paragraph", "file")}
    assert found["line"] == [Pair("One.", "", 1), Pair("two", "", 2), Pair("Three.", "", 5)]
    assert found["paragraph"] == [Pair("One.\ntwo", "", 1), Pair("Three.", "", 5)]
    assert found["file"] == [Pair("One.\ntwo\n\n  \nThree.", "", 1)]
    assert texts(recipe(f"train: {path}"), "valid") == []


def test_a_folder_of_files_and_tables(tmp_path: Path) -> None:
    write(tmp_path / "all" / "b.txt", "b\n")
    write(tmp_path / "all" / "a.txt", "a1\na2\n")
    folder = texts(recipe(f"train: {tmp_path / 'all'}, unit: file"), "train")
    assert [one.source for one in folder] == ["a1\na2", "b"]
    table = write(tmp_path / "t.tsv", "text\tmore\nx\ty\n")
    assert [one.source for one in texts(recipe(f"train: {table}, source: more"), "train")] == ["y"]
    assert [one.source for one in texts(recipe(f"train: {table}, source: en"), "train")] == ["text", "x"]
    lines = write(tmp_path / "t.jsonl", '{"text": "z"}\n')
    assert [one.source for one in texts(recipe(f"train: {lines}, source: text"), "train")] == ["z"]
    with pytest.raises(UserError, match="no such file"):
        texts(recipe(f"train: {tmp_path / 'absent.txt'}"), "train")
    with pytest.raises(UserError, match="holds no text"):
        texts(recipe(f"train: {write(tmp_path / 'empty.txt', chr(10))}"), "train")


def test_named_sets_and_more_of_them(data_root: Path) -> None:
    its = recipe("name: multi30k, more: [tatoeba-en-fr, shakespeare], unit: paragraph, source: en")
    train = texts(its, "train")
    assert len(train) == 29_000 + 156_943 + 6_283
    assert train[-1].source.count("\n") >= 1
    assert len(texts(its, "valid")) == 1014  # of the first alone
    assert texts(recipe("name: shakespeare"), "test") == []
    assert len(texts(recipe("name: shakespeare, unit: file"), "valid")[0].source) == pytest.approx(111_540, abs=2)


def test_repeated_and_empty_texts_are_dropped_as_the_recipe_says() -> None:
    pairs = [Pair("a", "", 1), Pair("a", "", 2), Pair("b", "", 3)]
    kept, report = cleaned(recipe("train: x"), pairs)
    assert [one.line for one in kept] == [1, 3]
    assert report.total == 3
    assert cleaned(recipe("train: x, clean: {drop_duplicates: false}"), pairs)[0] == pairs
    same = [Pair("a", "good", 1), Pair("a", "bad", 2)]
    assert cleaned(recipe("train: x", "classification"), same)[0] == same
    with pytest.raises(UserError, match="no text is left of 1"):
        cleaned(recipe("train: x"), [Pair(" ", "", 1)])


def test_classes_and_second_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tsv", "a\tb\tlabel\nx\ty\t1\nu\tv\t0\n")
    its = f"train: {path}, source: a, target: label"
    assert labelled(recipe(its, "classification"), "train") == [Pair("x", "1", 2), Pair("u", "0", 3)]
    both = labelled(recipe(f"{its}, second: b", "classification"), "train")
    assert both[0].source == f"x{BETWEEN}y"
    assert labelled(recipe(its, "classification"), "test") == []
    assert len(labelled(recipe(f"{its}, max_pairs: 1", "classification"), "train")) == 1
    write(path, f"a\tb\tlabel\nx{BETWEEN}\ty\t1\n")
    with pytest.raises(UserError, match=r"holds the control character U\+001F"):
        labelled(recipe(its, "classification"), "train")


def test_a_class_may_be_called_anything() -> None:
    """A dash once stood for no class at all. A text without a class is a faulty one."""
    its = recipe("train: x", "classification")
    pairs = [Pair("a", "+", 1), Pair("b", "-", 2), Pair("c", "", 3)]
    kept, report = cleaned(its, pairs)
    assert kept == pairs[:2]
    assert report.rules["empty"].lines == [3]
