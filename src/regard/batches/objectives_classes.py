"""A class for each text, token or image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.batches.collate import Batch, padded
from regard.layers.heads import IGNORED
from regard.layout import Layout

Example = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Classes:
    """One class for each text or pair of texts, whose ids come with their marks. An example's target is its class and then
    how many of its tokens are in segment 0, in segment 1, …; nothing more: all are in segment 0."""

    pad: int = 0

    def widths(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As many columns as tokens."""
        return source, np.zeros_like(source)

    def __call__(self, examples: Sequence[Example], numbers: Sequence[int], noise: np.random.Generator) -> Batch:
        """Draws nothing."""
        segments = None
        if any(len(target) > 1 for _, target in examples):
            rows = [_runs(target[1:], len(ids)) for ids, target in examples]
            segments = torch.from_numpy(padded(rows, 0))
        return Batch(
            inputs=torch.from_numpy(padded([ids for ids, _ in examples], self.pad)),
            layout=Layout.padded([len(ids) for ids, _ in examples]),
            targets=torch.tensor([int(target[0]) for _, target in examples]),
            segments=segments,
            examples=[int(number) for number in numbers],
            source_tokens=sum(len(ids) for ids, _ in examples),
            target_tokens=len(examples),
        )


def _runs(counts: np.ndarray, length: int) -> np.ndarray:
    """Segments Int[T] of a row, the last run as long as the row needs."""
    numbers = np.repeat(np.arange(len(counts)), counts)[:length]
    return np.pad(numbers, (0, length - len(numbers)), mode="edge") if len(numbers) else np.zeros(length, dtype=np.int64)


def segment_counts(segments: Sequence[int]) -> list[int]:
    """Segments of a row, in rising order -> how many tokens each has; [] if all are in segment 0. ValueError for a
    segment that comes again."""
    if list(segments) != sorted(segments):
        raise ValueError("segments must not fall along a row")
    last = max(segments, default=0)
    return [list(segments).count(number) for number in range(last + 1)] if last else []


@dataclass(frozen=True)
class Tags:
    """One class for each token that has one. An example's target is for every token its class and one more, 0 for a token
    that is not classified (a mark, or a word's second piece)."""

    pad: int = 0

    def widths(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As many columns as tokens, for ids and classes."""
        return source, target

    def __call__(self, examples: Sequence[Example], numbers: Sequence[int], noise: np.random.Generator) -> Batch:
        """Draws nothing."""
        wanted = [np.where(tags > 0, tags.astype(np.int64) - 1, IGNORED) for _, tags in examples]
        return Batch(
            inputs=torch.from_numpy(padded([ids for ids, _ in examples], self.pad)),
            layout=Layout.padded([len(ids) for ids, _ in examples]),
            targets=torch.from_numpy(padded(wanted, IGNORED)),
            examples=[int(number) for number in numbers],
            source_tokens=sum(len(ids) for ids, _ in examples),
            target_tokens=int(sum((row != IGNORED).sum() for row in wanted)),
        )


@dataclass(frozen=True)
class Images:
    """One class for each image. An example's source is its numbers (0 to 255, channels first), its target its class; the
    model gets Float[B C H W], (number / 255 - mean) / std. An image counts as one column.

    shift: in training an image is moved by up to so many pixels each way, black moving in; 0: never.
    """

    channels: int
    height: int
    width: int
    mean: float = 0.5
    std: float = 0.5
    shift: int = 0

    def widths(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One column an image."""
        return np.ones_like(source), np.zeros_like(source)

    def __call__(self, examples: Sequence[Example], numbers: Sequence[int], noise: np.random.Generator) -> Batch:
        """Draws how far each image is moved."""
        shape = len(examples), self.channels, self.height, self.width
        raw = np.stack([pixels for pixels, _ in examples]).reshape(shape)
        if self.shift:
            raw = self._moved(raw, noise)
        pixels = torch.from_numpy(raw.astype(np.float32))
        return Batch(
            inputs=(pixels / 255 - self.mean) / self.std,
            layout=None,
            targets=torch.tensor([int(target[0]) for _, target in examples]),
            examples=[int(number) for number in numbers],
            source_tokens=len(examples),
            target_tokens=len(examples),
        )

    def _moved(self, raw: np.ndarray, noise: np.random.Generator) -> np.ndarray:
        edge = self.shift
        framed = np.pad(raw, ((0, 0), (0, 0), (edge, edge), (edge, edge)))
        at = noise.integers(0, 2 * edge + 1, (len(raw), 2)).tolist()
        return np.stack([one[:, y : y + self.height, x : x + self.width] for one, (y, x) in zip(framed, at, strict=True)])
