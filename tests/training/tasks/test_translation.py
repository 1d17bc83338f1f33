"""Text from text keeps what it had before there were other tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.batches.objectives import Translation
from regard.text.corpus import Pair
from regard.training.recipe import read_recipe
from regard.training.tasks import find, translation
from regard.training.validate import Verdict


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.tsv").write_text("a b\tb a\nc d\td c\n", encoding="utf-8")
    files = ", ".join(f"{split}: {tmp_path / split}.tsv" for split in ("train", "valid", "test"))
    text = "tokenizer: {kind: words}\nmodel: {architecture: transformer}\ntraining: {max_steps: 1}\n"
    return read_recipe(f"data: {{{files}}}\n{text}")


def test_it_is_the_usual_kind(recipe) -> None:
    assert recipe.task.kind == "translation"
    assert find(recipe.task.kind) is translation
    assert recipe.training.label_smoothing == 0.1


def test_it_reads_pairs_and_scores_answers(recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = translation.prepare(recipe, tmp_path / "cache")
    assert prepared.objective == Translation(0, 2, 3)
    assert prepared.test_pairs == [Pair("a b", "b a", 1), Pair("c d", "d c", 2)]
    assert prepared.given == {}
    monkeypatch.setattr(translation, "judge", lambda *_, **__: (["x"], {}))
    assert translation.test(None, recipe, prepared) == Verdict({}, ["x"])
    prepared.test_pairs = []
    assert translation.test(None, recipe, prepared) is None
