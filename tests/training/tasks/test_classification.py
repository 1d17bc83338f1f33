"""Classes of texts: names, marks, segments, lengths, and what is measured."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.training.loop import train
from regard.training.prepare import prepare
from regard.training.recipe import Recipe
from regard.training.tasks.classification import labels_of, shortened


def test_labels_stand_in_order_of_numbers_or_letters(made: Callable[..., Recipe]) -> None:
    recipe = made("classification")
    assert labels_of(["10", "9", "10"], recipe, None) == ["9", "10"]
    assert labels_of(["b", "a"], recipe, None) == ["a", "b"]
    with pytest.raises(UserError, match="1 class in column label; at least two"):
        labels_of(["a"], recipe, None)


def test_texts_have_their_marks_and_pairs_their_segments(made: Callable[..., Recipe]) -> None:
    prepared = prepare(made("classification"))
    ids, target = prepared.train.plain.pair(0)
    assert (ids[0], ids[-1]) == (2, 3)
    assert prepared.labels == ["bad", "good"]
    assert prepared.given == {"head": "class", "classes": 2}
    assert len(target) == 1
    pairs = prepare(made("pairs"))
    ids, target = pairs.train.plain.pair(0)
    assert int(target[1:].sum()) == len(ids)
    assert ids[int(target[1]) - 1] == 3
    assert ids[int(target[1]) :].tolist() == [*ids[int(target[1]) : -1].tolist(), 3]


def test_what_is_too_long_loses_its_end_the_longer_text_first(made: Callable[..., Recipe]) -> None:
    tokenizer = prepare(made("pairs")).tokenizers.source
    assert shortened([5] * 9, None, tokenizer, 6) == ([5] * 4, None)
    assert shortened([5] * 9, [6] * 2, tokenizer, 10) == ([5] * 5, [6] * 2)
    assert shortened([5] * 2, [6] * 9, tokenizer, 10) == ([5] * 2, [6] * 5)
    assert shortened([5] * 9, [6] * 9, tokenizer, 9) == ([5] * 3, [6] * 3)
    assert shortened([5] * 9, [6] * 9, tokenizer, None) == ([5] * 9, [6] * 9)
    for first in range(12):
        for second in range(12):
            one, two = shortened([5] * first, [6] * second, tokenizer, 9)
            assert two is not None
            assert len(tokenizer.wrap(one, two)[0]) <= 9
            assert len(one) + len(two) == min(first + second, 6)


def test_validation_texts_are_never_skipped(made: Callable[..., Recipe]) -> None:
    prepared = prepare(made("classification", data={"max_length": 5}, training={"on_long": "cut"}))
    assert prepared.train.plain.source_lengths.max() == prepared.valid.source_lengths.max() == 5
    assert len(prepared.valid) == 12
    assert prepare(made("classification", data={"max_length": 9})).train.plain.source_lengths.max() > 9  # skipped later


def test_a_class_that_was_never_learned_is_named(made: Callable[..., Recipe], tmp_path: Path) -> None:
    recipe = made("classification")
    path = Path(str(recipe.data.test))
    path.write_text("text\tlabel\nthe bird\tugly\n", encoding="utf-8")
    with pytest.raises(UserError, match="test data, line 2: the class 'ugly' is not in the training data"):
        prepare(recipe)


def test_the_folder_knows_the_names_and_answers_are_written_down(made: Callable[..., Recipe], tmp_path: Path) -> None:
    recipe = made("classification", training={"max_steps": 2, "evaluate_every": 2, "monitor": "accuracy"})
    result = train(recipe, tmp_path / "x")
    assert result.best is not None
    assert 0 <= result.best <= 1
    config = json.loads((tmp_path / "x" / "config.json").read_text(encoding="utf-8"))
    assert config["id2label"] == {"0": "bad", "1": "good"}
    answers = (tmp_path / "x" / "test.hyp").read_text(encoding="utf-8").split()
    assert len(answers) == 10
    right = [line.split("\t")[1] for line in Path(str(recipe.data.test)).read_text(encoding="utf-8").split("\n")[1:-1]]
    share = 100 * sum(a == b for a, b in zip(answers, right)) / 10
    assert result.scores["accuracy"]["value"] == pytest.approx(share)
    assert result.scores["accuracy"]["signature"] == "examples:10|classes:2"


@pytest.mark.parametrize("kind", ["classification", "pairs", "tagging"])
def test_examples_that_lose_their_ends_are_named(made: Callable[..., Recipe], kind: str) -> None:
    """Validation and test examples are cut, never skipped; training ones where the recipe says so."""
    said = prepare(made(kind, data={"max_length": 6})).summary()
    assert "validation data: 12 of 12 examples cut, longer than 6 tokens: lines 2, 3, " in said
    assert "training data" not in said
    cut = made(kind, data={"max_length": 6}, training={"on_long": "cut"})
    assert re.search(r"training data: (\d+) of \1 examples cut, longer than 6 tokens: lines ", prepare(cut).summary())
    assert "cut" not in prepare(made(kind)).summary()
