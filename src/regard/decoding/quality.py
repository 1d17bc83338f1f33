"""An estimate of how good a translation is, from what the model itself tells: a formula that a dev set was fitted to.

`regard.evaluation.quality` fits it, the model folder keeps it (`quality` in regard.json), translations carry its value.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from typing import Any

from regard.errors import UserError
from regard.text.words import word_spans

VERSION = 1
FEATURES = ("mean", "worst", "explained", "uncovered", "length", "far", "unknown", "flags")
"""What is asked of a translation: mean and smallest log-probability of its tokens, share of its cost that the source takes
away, share of the source's words hardly looked at, tokens for a token of the source (a logarithm) and how far that is from
the usual, unknown tokens of the source, flags."""


def features(one: Any, source: int, usual: float = 0.0) -> list[float]:
    """FEATURES of a Translation made with `confidence`. source: tokens of its source. usual: see `length` of a fitted
    formula."""
    logs = one.token_log_probs or [0.0]
    length = log((len(one.ids) + 1) / (source + 1))
    words = max(1, len(word_spans(one.source)))
    return [
        sum(logs) / len(logs),
        min(logs),
        0.0 if one.explained is None else one.explained,
        min(1.0, len(one.uncovered) / words),
        length,
        abs(length - usual),
        one.unknown / max(1, source),
        float(len(set(one.flags) - {"uncovered", "unknown-words"})),
    ]


def estimate(formula: Mapping[str, Any], values: Sequence[float]) -> float:
    """The chrF (0 to 100) that translations of these features have had: a weighted sum, put through a rising line."""
    pairs = zip(values, formula["weights"], formula["means"], formula["scales"], strict=True)
    total = sum(weight * (value - mean) / scale for value, weight, mean, scale in pairs)
    return interpolated([tuple(knot) for knot in formula["knots"]], total)


def interpolated(knots: Sequence[tuple[float, ...]], at: float) -> float:
    """The value there of a line through knots (x rising, y), level beyond its ends."""
    place = bisect_right([x for x, _ in knots], at)
    if place in (0, len(knots)):
        return knots[min(place, len(knots) - 1)][1]
    (left, low), (right, high) = knots[place - 1], knots[place]
    return low + (high - low) * (at - left) / (right - left)


def checked(formula: Any) -> Mapping[str, Any]:
    """A formula as a folder gives it. UserError: it is none of this version."""
    known = isinstance(formula, dict) and formula.get("version") == VERSION and formula.get("features") == list(FEATURES)
    if not known or not all(isinstance(formula.get(name), list) for name in ("weights", "means", "scales", "knots")):
        raise UserError("regard.json: quality is no estimate that this regard made: run regard evaluate --calibrate again")
    knots = formula["knots"]
    if not knots or not isinstance(formula.get("length"), float) or any(a[0] >= b[0] for a, b in pairwise(knots)):
        raise UserError("regard.json: quality is broken: run regard evaluate --calibrate again")
    return formula
