"""Whether two systems differ by more than chance: paired bootstrap (Koehn 2004) and approximate randomisation (Riezler &
Maxwell 2005) of metrics that are quotients of sums. Those that sacrebleu computes it also tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Side:
    """One system's score, and the mean and half width of its 95 % bootstrap interval."""

    score: float
    mean: float
    half_width: float


@dataclass(frozen=True)
class Test:
    """A metric for both systems. difference: second minus first; low, high: its 95 % bootstrap interval, on the resamples
    of sacrebleu's test; p_value: sacrebleu's, two-sided; p_randomised: that of its approximate randomisation (Riezler &
    Maxwell 2005), of as many trials."""

    __test__ = False  # not a class of tests

    metric: str
    signature: str
    first: Side
    second: Side
    difference: float
    low: float
    high: float
    p_value: float
    p_randomised: float


def of_sums(
    name: str, signature: str, sides: tuple[Sequence[tuple[float, float]], Sequence[tuple[float, float]]], samples: int,
    seed: int,
) -> Test:  # fmt: skip
    """Both systems by a metric 100 · Σ a / Σ b. sides: (a, b) of each text, of the first system and of the second.

    The resamples are those that sacrebleu draws from the same seed.
    """
    one, two = (np.asarray(side, dtype=float).reshape(-1, 2) for side in sides)
    count, random = len(one), np.random.default_rng(seed)
    rows = random.choice(count, size=(samples, count), replace=True)
    drawn = [_value(side[rows].sum(1)) for side in (one, two)]
    scores = [float(_value(side.sum(0))) for side in (one, two)]
    gap, differences = scores[1] - scores[0], drawn[1] - drawn[0]
    spread = np.abs(differences) - np.abs(differences).mean()
    swapped = np.random.default_rng(seed).integers(2, size=(samples, count)) @ (two - one)
    shuffled = np.abs(_value(two.sum(0) - swapped) - _value(one.sum(0) + swapped))
    p_values = [float((np.sum(found >= abs(gap)) + 1) / (samples + 1)) for found in (spread, shuffled)]
    if gap == 0:  # which no resample can exceed or fall short of
        p_values = [1.0, 1.0]
    halves = [float(np.percentile(its, 97.5) - np.percentile(its, 2.5)) / 2 for its in drawn]
    first, second = (Side(score, float(its.mean()), half) for score, its, half in zip(scores, drawn, halves))
    low, high = np.percentile(differences, [2.5, 97.5])
    return Test(name, signature, first, second, gap, float(low), float(high), p_values[0], p_values[1])


def _value(sums: np.ndarray) -> np.ndarray:
    """Quotients, in percent, of sums [... 2]; where nothing is counted, 0 or, if there are errors, 100."""
    over, under = sums[..., 0], sums[..., 1]
    return np.where(under > 0, 100 * over / np.where(under > 0, under, 1.0), 100.0 * (over > 0))
