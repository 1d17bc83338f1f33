"""What is to be scored, read from files and checked before a model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import UserError
from regard.evaluation.task import Task, language_of, task_of_files, task_of_pairs


def _write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")
    return path


def test_line_files_become_a_task_with_languages_from_their_endings(tmp_path: Path) -> None:
    source, reference = _write(tmp_path / "test.en", ["a", "b"]), _write(tmp_path / "test.de", ["x", "y"])
    task = task_of_files(source, [reference])
    assert task == Task([["x", "y"]], ["a", "b"], "en", "de")
    assert task_of_files(source, [reference], "xx", "yy").target_language == "yy"
    assert task_of_files(None, [_write(tmp_path / "plain.txt", ["x"])]) == Task([["x"]], None, None, None)


def test_chinese_and_japanese_are_known_by_their_characters(tmp_path: Path) -> None:
    assert language_of(["我们去公园。", "OK！"]) == "zh"
    assert language_of(["公園に行きます。"]) == "ja"
    assert language_of(["We go to 公园.", "Bonjour"]) is None
    assert language_of(["", "!?"]) is None
    assert task_of_files(None, [_write(tmp_path / "out.txt", ["我们去公园。"])]).target_language == "zh"


def test_s_data_01_files_with_odd_characters_keep_their_lines(tmp_path: Path) -> None:
    """S-DATA-01: only line feeds end a line, so sentence 3 is still sentence 3."""
    for odd in "\u2028\u2029\u0085\u000b\u000c\u001c":
        source = _write(tmp_path / "s", ["one", f"two{odd}more", "three"])
        reference = _write(tmp_path / "r", ["1", f"2{odd}2", "3"])
        task = task_of_files(source, [reference])
        assert len(task) == 3
        assert (task.sources[2], task.references[0][2]) == ("three", "3")


def test_s_loss_07_an_empty_reference_is_refused_when_the_files_are_read(tmp_path: Path) -> None:
    """S-LOSS-07: before any model is loaded, naming line 2."""
    source, reference = _write(tmp_path / "s", ["1", "2", "3"]), _write(tmp_path / "r", ["a b", "", "c d"])
    with pytest.raises(UserError, match="line 2 of the references is empty"):
        task_of_files(source, [reference])
    assert task_of_files(source, [reference], allow_empty=True).references == [["a b", "", "c d"]]
    second = _write(tmp_path / "r2", ["", "x", ""])
    assert task_of_files(source, [reference, second]).references == [["a b", None, "c d"], [None, "x", None]]


def test_unequal_files_are_refused_with_both_counts(tmp_path: Path) -> None:
    source, reference = _write(tmp_path / "s", ["1", "2", "3"]), _write(tmp_path / "r", ["a"])
    with pytest.raises(UserError, match=r"3 sentences .* 1 lines"):
        task_of_files(source, [reference])
    with pytest.raises(UserError, match="no references"):
        task_of_files(source, [])


def test_pairs_with_the_same_source_become_one_sentence(tmp_path: Path) -> None:
    corpus = _write(tmp_path / "pairs.tsv", ["Go.\tVa !", "Hi.\tSalut !", "Go.\tMarche."])
    grouped = task_of_pairs(corpus, "en", "fr")
    assert grouped == Task([["Va !", "Salut !"], ["Marche.", None]], ["Go.", "Hi."], "en", "fr")
    alone = task_of_pairs(corpus, "en", "fr", group=False)
    assert alone == Task([["Va !", "Salut !", "Marche."]], ["Go.", "Hi.", "Go."], "en", "fr")


def test_a_task_can_be_cut_and_changed() -> None:
    task = Task([["A", "B"], ["C", None]], ["X", "Y"])
    assert task.first(1) == Task([["A"], ["C"]], ["X"])
    assert task.first(None) is task
    assert task.changed(str.lower, str.lower) == Task([["a", "b"], ["c", None]], ["x", "y"])
    assert task.changed(None, None) == task
