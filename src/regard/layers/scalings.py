"""How rotary models trained on short texts turn over long ones: other rates for each pair of numbers (`Rotary.scaling`)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from regard.layers.part import part


@part
class Interpolated:
    """All rates divided by `factor`, so that long texts have the angles of short ones (Chen et al. 2023)."""

    factor: float

    gain = 1.0

    def rates(self, rates: Tensor) -> Tensor:
        return rates / self.factor


@part
class ByWavelength:
    """Pairs that turn at most `low` times within `original` positions are slowed by `factor`, those that turn at least
    `high` times are left alone, those between are mixed (as LLaMA 3.1 was released; Grattafiori et al. 2024)."""

    factor: float
    original: int
    low: float = 1.0
    high: float = 4.0

    gain = 1.0

    def rates(self, rates: Tensor) -> Tensor:
        turns = self.original * rates / (2 * math.pi)
        share = ((turns - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
        return (1 - share) * rates / self.factor + share * rates


@part
class Yarn:
    """Rates mixed by how often a pair turns within `original` positions, `slow` or less: slowed by `factor`, `fast` or more:
    left alone, with the mix linear in the pair's number, and tables × `gain` (Peng et al. 2024).

    scale: the gain, None for the paper's 0.1 ln(factor) + 1. whole: the first and the last mixed pair are whole numbers.
    """

    factor: float
    original: int
    fast: float = 32.0
    slow: float = 1.0
    scale: float | None = None
    whole: bool = True

    @property
    def gain(self) -> float:
        """Factor on cosines and sines."""
        return yarn_gain(self.factor) if self.scale is None else self.scale

    def rates(self, rates: Tensor) -> Tensor:
        if len(rates) < 2:
            raise ValueError("yarn needs heads of at least 4 numbers")
        # The pair that turns n times has the rate 2 pi n / original, and rates fall geometrically from 1.
        fall = -math.log(float(rates[-1])) / (len(rates) - 1)
        low, high = (math.log(self.original / (2 * math.pi * turns)) / fall for turns in (self.fast, self.slow))
        if self.whole:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, 2 * len(rates) - 1)
        high += 0.001 if low == high else 0.0
        share = ((torch.arange(len(rates), dtype=rates.dtype, device=rates.device) - low) / (high - low)).clamp(0.0, 1.0)
        return rates / self.factor * share + rates * (1 - share)


def yarn_gain(factor: float, scale: float = 1.0) -> float:
    """0.1 × scale × ln(factor) + 1, and 1 for factors up to 1 (Peng et al. 2024, section 3.4)."""
    return 1.0 if factor <= 1 else 0.1 * scale * math.log(factor) + 1.0
