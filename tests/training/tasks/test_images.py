"""Classes of images: where they are read from, how their numbers are scaled."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from regard.errors import UserError
from regard.training.loop import train
from regard.training.prepare import prepare
from regard.training.recipe import Recipe, load_recipe
from regard.training.tasks.images import read


def test_the_data_decides_size_channels_classes_and_scale(made: Callable[..., Recipe]) -> None:
    prepared = prepare(made("images"))
    assert prepared.given == {"head": "class", "classes": 2, "channels": 1, "image_size": (4, 6)}
    batch = prepared.checking([prepared.train.plain.pair(i) for i in range(60)], range(60), np.random.default_rng(0))
    assert float(batch.inputs.mean()) == pytest.approx(0, abs=0.01)
    assert float(batch.inputs.std()) == pytest.approx(1, abs=0.01)
    assert prepared.objective.shift == 1
    assert prepared.checking.shift == 0
    assert prepared.tokenizers is None
    assert "60 training, 12 validation, 10 test examples" in prepared.summary()


def test_without_validation_images_the_last_ones_are_held_back(made: Callable[..., Recipe]) -> None:
    prepared = prepare(made("images", data={"train": "train-images,train-labels", "valid": None}))
    assert (len(prepared.train), len(prepared.valid)) == (55, 5)


def test_a_folder_knows_how_images_are_scaled_and_is_gone_on_from(made: Callable[..., Recipe], tmp_path: Path) -> None:
    recipe = made("images", training={"max_steps": 2, "evaluate_every": 2})
    train(recipe, tmp_path / "x")
    told = json.loads((tmp_path / "x" / "regard.json").read_text(encoding="utf-8"))
    assert set(told["image"]) == {"mean", "std"}
    again = made("images", model={"from": str(tmp_path / "x")}, training={"max_steps": 2})
    assert prepare(again).facts["image"] == told["image"]
    train(again, tmp_path / "y")
    assert not (tmp_path / "y" / "tokenizer.json").exists()


def test_the_trained_folder_reads_pictures_as_the_training_did(made: Callable[..., Recipe], tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    import torch

    import regard

    recipe = made("images", training={"max_steps": 2, "evaluate_every": 2})
    train(recipe, tmp_path / "x")
    its, prepared, pictures = regard.load(tmp_path / "x"), prepare(recipe), read(recipe, "test")
    assert pictures is not None
    found = its.classify(list(pictures.pixels[:, 0]), details=True)
    batch = prepared.checking([prepared.test.pair(i) for i in range(10)], range(10), np.random.default_rng(0))
    with torch.no_grad():
        want = its.model(batch.inputs).logits.softmax(-1)
    got = [[one.probabilities[name] for name in its.labels] for one in found]
    assert np.abs(np.array(got) - want.numpy()).max() < 1e-5


def test_named_images(data_root: Path) -> None:
    recipe = load_recipe("mnist-vit", [f"data.root={data_root}"])
    test = read(recipe, "test")
    assert test is not None
    assert test.pixels.shape == (10_000, 1, 28, 28)
    assert test.labels[:6] == ["7", "2", "1", "0", "4", "1"]
    assert read(recipe, "valid") is None
    with pytest.raises(UserError, match="sst2 has no images"):
        read(load_recipe("mnist-vit", ["data.name=sst2"]), "train")


def test_scikit_learns_digits() -> None:
    pytest.importorskip("sklearn")
    recipe = load_recipe("digits-vit")
    parts = [read(recipe, split) for split in ("train", "valid", "test")]
    assert [len(part) for part in parts if part is not None] == [1197, 200, 400]
    assert all(part is not None and part.pixels.shape[1:] == (1, 8, 8) for part in parts)
