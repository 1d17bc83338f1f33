"""How rotary models trained on short texts turn over long ones: other rates for each pair of numbers (`Rotary.scaling`)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

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


_LENGTH = "original_max_position_embeddings"
KINDS: dict[str, tuple[type, dict[str, str]]] = {
    "linear": (Interpolated, {"factor": "factor"}),
    "llama3": (
        ByWavelength,
        {"factor": "factor", _LENGTH: "original", "low_freq_factor": "low", "high_freq_factor": "high"},
    ),
    "yarn": (
        Yarn,
        {
            "factor": "factor",
            _LENGTH: "original",
            "beta_fast": "fast",
            "beta_slow": "slow",
            "attention_factor": "scale",
            "truncate": "whole",
        },
    ),
}
"""Kinds of scaling in configurations of transformers: the part, and their names of its numbers."""

BY_LENGTH = {"dynamic", "longrope"}
"""Kinds whose angles depend on the longest text of a batch: a text's answer would depend on its neighbours, and the keys of
a cache on how long the text was when they came. They are refused."""


def read_rope(config: Mapping[str, Any], base: float = 10000.0) -> dict[str, Any]:
    """The `base` and the `scaling` that a configuration speaks of, as rope_parameters (transformers 5) or as rope_theta and
    rope_scaling (before). base: where it says nothing. ValueError says what regard cannot compute."""
    rope = dict(config.get("rope_scaling") or config.get("rope_parameters") or {})
    kind = rope.pop("rope_type", None) or rope.pop("type", None) or "default"
    rope.pop("type", None)
    found = {"base": float(rope.pop("rope_theta", None) or config.get("rope_theta") or base), "scaling": None}
    if rope.pop("partial_rotary_factor", None) not in (None, 1, 1.0):
        raise ValueError("partial_rotary_factor is not 1: the reference class turns whole heads")
    if kind == "default":
        return found
    known = f"default, {', '.join(KINDS)}"
    if kind in BY_LENGTH:
        raise ValueError(f"rope_type is {kind!r}, whose angles depend on the longest text of a batch; known are {known}")
    if kind not in KINDS:
        raise ValueError(f"rope_type is {kind!r}; known are {known}")
    part_of, names = KINDS[kind]
    longest = config.get("max_position_embeddings")
    if _LENGTH in names:
        rope[_LENGTH] = config.get(_LENGTH) or rope.get(_LENGTH) or longest
    if kind == "yarn":
        _read_yarn(rope, longest)
    unknown = sorted(rope.keys() - names.keys())
    missing = [name for name in ("factor", _LENGTH) if name in names and rope.get(name) is None]
    if unknown or missing:
        wrong = [f"has no {name}" for name in missing] + [f"has {name}, which is unknown" for name in unknown]
        raise ValueError(f"rope_parameters of type {kind} {' and '.join(wrong)}")
    return found | {"scaling": part_of(**{names[key]: value for key, value in rope.items() if value is not None})}


def _read_yarn(rope: dict[str, Any], longest: int | None) -> None:
    """Put in what yarn's configurations leave to be worked out: the factor, and the gain from two scales."""
    if rope.get("factor") is None and longest and rope.get(_LENGTH):
        rope["factor"] = longest / rope[_LENGTH]
    one, other = rope.pop("mscale", None), rope.pop("mscale_all_dim", None)
    if one and other and rope.get("attention_factor") is None and rope.get("factor"):
        rope["attention_factor"] = yarn_gain(rope["factor"], one) / yarn_gain(rope["factor"], other)


def write_rope(base: float, scaling: Any) -> dict[str, Any]:
    """The keys of a configuration for this base and scaling, in the spellings of transformers 5 and before; {} if none of
    their kinds is this scaling."""
    rope: dict[str, Any] = {"rope_type": "default"}
    for kind, (part_of, names) in KINDS.items():
        if type(scaling) is part_of:
            values = {key: getattr(scaling, field) for key, field in names.items()}
            rope = {"rope_type": kind} | {key: value for key, value in values.items() if value is not None}
    if scaling is not None and rope["rope_type"] == "default":
        return {}
    old = {} if scaling is None else {"rope_scaling": rope}
    return {"rope_theta": base, "rope_parameters": rope | {"rope_theta": base}} | old
