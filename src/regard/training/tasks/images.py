"""A class for each image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from regard.batches.images import Pictures, read_folder, read_idx_pair
from regard.batches.objectives_classes import Images
from regard.errors import UserError
from regard.text import named
from regard.text.clean import Report
from regard.text.corpus import PairFiles
from regard.training.prepare import Prepared
from regard.training.recipe import Recipe
from regard.training.start import start_of
from regard.training.tasks.classification import labels_of, look, test

__all__ = ["look", "prepare", "read", "test"]

HELD = 12
"""Where data names no validation images, one in so many training images, the last of them, is held back for it."""
DIGITS = "digits"


def prepare(recipe: Recipe, cache: Path) -> Prepared:
    """Read images. The numbers are scaled by the training images' own mean and spread, or by those of the folder that the
    model comes from."""
    train, valid, test = (read(recipe, split) for split in ("train", "valid", "test"))
    if train is None:
        raise UserError("data.train: no images; name a folder, or two idx files IMAGES,LABELS")
    if valid is None:
        kept = len(train) - max(len(train) // HELD, 1)
        train, valid = train.part(0, kept), train.part(kept, len(train))
    if recipe.data.max_pairs is not None:
        train = train.part(0, recipe.data.max_pairs)
    start = start_of(recipe)
    labels = labels_of(train.labels, recipe, start)
    image = _image(train) if start is None else dict(start.meta.get("image") or _image(train))
    _, channels, height, width = train.pixels.shape
    told = {"channels": channels, "height": height, "width": width, "mean": image["mean"], "std": image["std"]}
    for part in (valid, test):
        if part is not None and part.pixels.shape[1:] != train.pixels.shape[1:]:
            raise UserError(f"data: images of {part.pixels.shape[1:]} and of {train.pixels.shape[1:]}; make all alike")
    return Prepared(
        train=train.examples(labels, "training images"),
        valid=valid.examples(labels, "validation images"),
        valid_pairs=[],
        test_pairs=[],
        tokenizers=None,
        report=Report(len(train), len(train), {}, {}, []),
        name=recipe.data.name or str(recipe.data.train),
        test=None if test is None else test.examples(labels, "test images"),
        objective=Images(**told, shift=recipe.task.shift),
        checking=Images(**told),
        given={
            "head": "class",
            "classes": len(labels),
            "channels": channels,
            "image_size": height if height == width else (height, width),
        },
        labels=labels,
        start=start,
        facts={"image": image, "images": _preprocessor(image, channels, height, width)},
    )


def _preprocessor(image: dict[str, float], channels: int, height: int, width: int) -> dict[str, Any]:
    """What preprocessor_config.json says of it, so that pictures become the same numbers in use."""
    return {
        "do_resize": True,
        "size": {"height": height, "width": width},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [image["mean"]] * channels,
        "image_std": [image["std"]] * channels,
    }


def _image(pictures: Pictures) -> dict[str, float]:
    scaled = pictures.pixels.astype(np.float64) / 255
    return {"mean": round(float(scaled.mean()), 4), "std": round(float(scaled.std()), 4) or 1.0}


def read(recipe: Recipe, split: str) -> Pictures | None:
    """The images of a split; None where the recipe names none."""
    data = recipe.data
    told = getattr(data, split)
    if told is not None:
        parts = told.split(",")
        return read_idx_pair(*parts) if len(parts) == 2 and not Path(told).is_dir() else read_folder(told)
    if data.name is None:
        return None
    if data.name == DIGITS:
        return _digits(split)
    if data.name not in named.NAMED or "images" not in named.NAMED[data.name].sides:
        raise UserError(f"data.name: {data.name} has no images; there are mnist and {DIGITS}, or give data.train")
    if split == "valid":
        return None
    files = named.find(data.name, split, "images", "labels", data.root)
    assert isinstance(files, PairFiles)
    return read_idx_pair(files.source, files.target)


def _digits(split: str) -> Pictures:
    """scikit-learn's 1,797 digits of 8 × 8 pixels, in its order: 1,197 to learn from, 200 to watch, 400 to test."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UserError("data.name: digits come with scikit-learn: pip install 'regard[digits]'") from None
    found: Any = load_digits()
    pixels = np.round(found.images * (255 / 16)).astype(np.uint8)
    first, after = {"train": (0, 1197), "valid": (1197, 1397), "test": (1397, 1797)}[split]
    return Pictures(pixels[:, None], [str(number) for number in found.target]).part(first, after)
