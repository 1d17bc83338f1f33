"""Tokenizers of a recipe: their marks, the symbols of a task, and that they are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.training.recipe import read_recipe
from regard.training.tokenizers import MASK, SENTINELS, marks_of, tokenizer_of_texts, tokenizers_of_pairs

TEXTS = ["the red bird sings", "a blue fish swims <mask>"]


def recipe(task: str, tokenizer: str = "kind: words, vocab_size: 64"):
    return read_recipe(
        f"task: {{{task}}}\ntokenizer: {{{tokenizer}}}\ndata: {{train: a.txt}}\n"
        "model: {architecture: gpt2}\ntraining: {max_steps: 1}\n"
    )


@pytest.mark.parametrize(
    ("task", "marks", "one", "two"),
    [
        ("kind: language", "both", [2, 9, 3], ([2, 9, 3, 8, 3], [0, 0, 0, 1, 1])),
        ("kind: language, reading: blocks", "end", [9, 3], ([9, 3, 8, 3], [0, 0, 1, 1])),
        ("kind: masked", "both", [2, 9, 3], ([2, 9, 3, 8, 3], [0, 0, 0, 1, 1])),
        ("kind: permutation", "last", [9, 3, 2], ([9, 3, 8, 3, 2], [0, 0, 1, 1, 2])),
        ("kind: spans", "end", [9, 3], ([9, 3, 8, 3], [0, 0, 1, 1])),
    ],
)
def test_marks_stand_where_the_task_usually_has_them(tmp_path: Path, task, marks, one, two) -> None:
    its = recipe(task)
    assert marks_of(its) == marks
    tokenizer = tokenizer_of_texts(its, TEXTS, tmp_path).source
    assert tokenizer.wrap([9])[0] == one
    assert tokenizer.wrap([9], [8]) == two


def test_marks_can_be_chosen(tmp_path: Path) -> None:
    for marks, one in (("none", [9]), ("begin", [2, 9]), ("end", [9, 3]), ("both", [2, 9, 3]), ("last", [9, 3, 2])):
        its = recipe("kind: classification", f"kind: words, vocab_size: 64, marks: {marks}")
        assert tokenizer_of_texts(its, TEXTS, tmp_path).source.wrap([9])[0] == one


def test_symbols_are_the_last_ids_and_no_text_holds_them(tmp_path: Path) -> None:
    plain = tokenizer_of_texts(recipe("kind: language"), TEXTS, tmp_path).source
    masked = tokenizer_of_texts(recipe("kind: masked"), TEXTS, tmp_path).source
    assert plain.mask is None
    assert masked.mask == plain.vocab_size
    assert masked.piece(masked.mask) == MASK
    assert masked.mask not in masked.encode(TEXTS[1])
    spans = tokenizer_of_texts(recipe("kind: spans"), TEXTS, tmp_path).source
    assert [spans.piece(plain.vocab_size + n) for n in range(100)] == list(SENTINELS)


def test_they_are_kept_by_what_they_were_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    its = recipe("kind: masked")
    first = tokenizer_of_texts(its, TEXTS, tmp_path)

    def never(*args: object) -> None:
        raise AssertionError("a tokenizer was trained again")

    monkeypatch.setattr("regard.training.tokenizers.train_tokenizer", never)
    assert tokenizer_of_texts(its, TEXTS, tmp_path).source.hash == first.source.hash
    with pytest.raises(AssertionError, match="trained again"):
        tokenizer_of_texts(its, TEXTS[:1], tmp_path)
    with pytest.raises(AssertionError, match="trained again"):
        tokenizer_of_texts(recipe("kind: spans"), TEXTS, tmp_path)
    with pytest.raises(AssertionError, match="trained again"):
        tokenizers_of_pairs(its, [], tmp_path)
