"""A class for each text, token or image."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.batches.objectives_classes import Classes, Images, Tags, segment_counts
from regard.layers.heads import IGNORED


def noise(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_classes_of_texts_and_of_pairs() -> None:
    single = np.array([1, 5, 2]), np.array([4])
    batch = Classes(0)([single, (np.array([1, 5, 6, 2]), np.array([0]))], [7, 8], noise())
    assert batch.inputs.tolist() == [[1, 5, 2, 0], [1, 5, 6, 2]]
    assert batch.targets is not None
    assert batch.targets.tolist() == [4, 0]
    assert batch.segments is None
    assert (batch.target_tokens, batch.source_tokens, batch.examples) == (2, 7, [7, 8])
    pair = np.array([1, 5, 2, 6, 2]), np.array([1, 3, 2])
    batch = Classes(0)([pair, single], [0, 1], noise())
    assert batch.segments is not None
    assert batch.segments.tolist() == [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]


def test_segments_as_counts_and_back() -> None:
    assert segment_counts([0, 0, 0]) == []
    assert segment_counts([0, 0, 1]) == [2, 1]
    assert segment_counts([0, 2]) == [1, 0, 1]
    with pytest.raises(ValueError):
        segment_counts([1, 0])


def test_tags_are_one_more_and_nothing_is_zero() -> None:
    batch = Tags(0)(
        [(np.array([1, 5, 6, 2]), np.array([0, 3, 0, 0])), (np.array([1, 2]), np.array([0, 0]))], [0, 1], noise()
    )
    assert batch.targets is not None
    assert batch.targets.tolist() == [[IGNORED, 2, IGNORED, IGNORED], [IGNORED] * 4]
    assert batch.target_tokens == 1


def test_images_are_scaled_and_moved() -> None:
    pixels = np.zeros((1, 3, 4), dtype=np.uint8)
    pixels[0, 1, 2] = 255
    example = pixels.reshape(-1), np.array([1])
    still = Images(1, 3, 4, mean=0.5, std=0.25)([example], [0], noise())
    assert still.layout is None
    assert still.inputs.shape == (1, 1, 3, 4)
    assert still.inputs.flatten().unique().tolist() == [-2.0, 2.0]
    assert torch.equal(still.inputs.argmax(), torch.tensor(6))
    moved = Images(1, 3, 4, shift=1)
    places = {int(moved([example], [0], noise(seed)).inputs.argmax()) for seed in range(60)}
    assert places == {row * 4 + column for row in (0, 1, 2) for column in (1, 2, 3)}
    assert moved.widths(np.array([12]), np.array([1]))[0].tolist() == [1]
