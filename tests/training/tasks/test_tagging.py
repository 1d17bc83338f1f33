"""Tags of words: which piece has them, and what is measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.text.corpus import Pair
from regard.text.tokenizer import Plan, Tokenizer, train_tokenizer
from regard.training.loop import train
from regard.training.prepare import prepare
from regard.training.recipe import Recipe
from regard.training.tasks.tagging import pieces_of


@pytest.mark.parametrize("kind", ["unigram", "bpe", "words", "characters", "bytes"])
def test_the_first_piece_of_a_word_has_its_tag(kind: str) -> None:
    lines = ["the lovely bird sees", "a stone likes the lovely tree"] * 3
    tokenizer = train_tokenizer(lines, Plan(kind=kind, vocab_size=300 if kind in ("unigram", "bpe", "bytes") else 40))
    pair = Pair("the lovely bird", "A B C", 1)
    ids, classes = pieces_of(pair, tokenizer, {"A": 0, "B": 1, "C": 2}, "x")
    assert len(ids) == len(classes)
    assert [one for one in classes if one] == [1, 2, 3]
    assert classes[0] == 1
    assert tokenizer.decode(ids) == pair.source


def test_marks_have_no_tag(made: Callable[..., Recipe]) -> None:
    prepared = prepare(made("tagging"))
    ids, tags = prepared.train.plain.pair(0)
    assert len(ids) == len(tags)
    assert (tags[0], tags[-1]) == (0, 0)
    assert (tags[1:-1] > 0).all()  # one piece a word
    assert prepared.labels == ["B-N", "I-N", "O"]


def test_as_many_tags_as_words(made: Callable[..., Recipe]) -> None:
    recipe = made("tagging")
    Path(str(recipe.data.train)).write_text("text\tlabel\na b c\tO O\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"data\.train: line 2 has 3 words and 2 tags"):
        prepare(recipe)


def test_spans_are_counted_where_tags_are_iob(made: Callable[..., Recipe], tmp_path: Path) -> None:
    recipe = made("tagging", training={"max_steps": 60, "learning_rate": 0.02, "evaluate_every": 60, "monitor": "f1"})
    result = train(recipe, tmp_path / "x")
    assert result.scores["f1"]["signature"].endswith("f1:spans")
    assert result.scores["accuracy"]["value"] > 80
    assert result.best is not None
    lines = (tmp_path / "x" / "test.hyp").read_text(encoding="utf-8").split("\n")
    assert len(lines) == 11
    assert set(" ".join(lines).split()) <= {"B-N", "I-N", "O"}


def test_a_word_that_a_tokenizer_drops_is_named(foreign: Callable[..., Path]) -> None:
    """BERT's drops control characters: the tag of such a word once went with it, and those behind it moved up."""
    tokenizer = Tokenizer.open(foreign("bert"))
    assert pieces_of(Pair("hello world", "A B", 1), tokenizer, {"A": 0, "B": 1}, "x")
    with pytest.raises(UserError, match="x, line 7: word 2 is nothing to this tokenizer"):
        pieces_of(Pair("hello \u200b\u200c world", "A B A", 7), tokenizer, {"A": 0, "B": 1}, "x")
