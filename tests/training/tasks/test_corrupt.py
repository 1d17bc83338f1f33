"""Damaged texts: the symbols of a tokenizer and the ids of a folder reach the objective."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.training.loop import train
from regard.training.prepare import prepare
from regard.training.recipe import Recipe
from regard.training.tasks import corrupt


def test_spans_take_the_sentinels_in_order(made: Callable[..., Recipe]) -> None:
    prepared = prepare(made("spans"))
    tokenizer, objective = prepared.tokenizers.source, prepared.objective
    assert [tokenizer.piece(number) for number in objective.sentinels[:2]] == ["<extra_id_0>", "<extra_id_1>"]
    assert len(objective.sentinels) == 100
    assert (objective.share, objective.start, objective.eos) == (0.3, tokenizer.bos, tokenizer.eos)


def test_denoising_takes_the_recipes_damage(made: Callable[..., Recipe]) -> None:
    prepared = prepare(made("denoising"))
    tokenizer, objective = prepared.tokenizers.source, prepared.objective
    assert objective.mask == tokenizer.mask
    assert (objective.share, objective.delete, objective.rotate, objective.shuffle) == (0.3, 0.1, 0.5, True)
    assert (objective.before, objective.after) == ((), (tokenizer.eos,))
    assert objective.ends[tokenizer.encode(".")].all()
    assert not objective.ends[tokenizer.encode("bird")].any()


def test_long_texts_are_cut(made: Callable[..., Recipe]) -> None:
    prepared = prepare(made("spans", data={"max_length": 8}))
    assert prepared.train.plain.source_lengths.max() == 6
    with pytest.raises(UserError, match="leaves no room"):
        prepare(made("denoising", data={"max_length": 3}))


def test_a_folder_brings_its_ids_and_its_symbols(made: Callable[..., Recipe], tmp_path: Path) -> None:
    train(made("spans"), tmp_path / "first")
    again = prepare(made("spans", model={"from": str(tmp_path / "first")}))
    assert again.objective == prepare(made("spans")).objective
    with pytest.raises(UserError, match="denoising needs a symbol that hides tokens"):
        prepare(made("denoising", model={"from": str(tmp_path / "first")}))
    train(made("denoising"), tmp_path / "other")
    with pytest.raises(UserError, match="spans needs symbols such as <extra_id_0>"):
        prepare(made("spans", model={"from": str(tmp_path / "other")}))


def test_the_finished_model_is_judged_on_test_texts(made: Callable[..., Recipe], tmp_path: Path) -> None:
    result = train(made("denoising", training={"max_steps": 2}), tmp_path / "x")
    assert set(result.scores) == {"loss", "perplexity", "token_accuracy"}
    assert result.scores["loss"]["signature"].startswith("tokens:")
    assert corrupt.test is not None
