"""Examples of a document with the examples before them in front: what `data.context` learns from."""

from __future__ import annotations

import numpy as np

from regard.batches.data import Arrays, TokenisedPairs

SEED = 1
"""So that a corpus prepared once serves trainings of any seed."""


def with_context(arrays: Arrays, count: int, between: tuple[int, int], most: int, vary: bool) -> Arrays:
    """Each example behind those before it, at most `count`, on both sides (Tiedemann & Scherrer 2017).

    arrays: of a TokenisedPairs. An example follows another if its line does; where a line is missing, another document
    begins. between: the ids that stand between examples, of source and target. most: tokens of a side; what does not fit
    beside the example is left out, the first ones first. vary: how many stand in front is drawn evenly from none to
    `count`, so that a model learns all of these; else as many as there are.
    """
    lines = arrays["lines"]
    places = np.arange(len(lines))
    begins = np.ones(len(lines), dtype=bool)
    begins[1:] = np.diff(lines) != 1
    back = np.minimum(places - np.maximum.accumulate(np.where(begins, places, 0)), count)
    if vary:
        back = np.minimum(back, np.random.default_rng(SEED).integers(0, count + 1, len(lines)))
    for _ in range(count):
        over = np.zeros(len(lines), dtype=bool)
        for side in ("source", "target"):
            offsets = arrays[f"{side}_offsets"]
            over |= offsets[places + 1] - offsets[places - back] + back > most
        back = np.where(over, np.maximum(back - 1, 0), back)
    made: Arrays = {"lines": lines}
    for side, mark in zip(("source", "target"), between, strict=True):
        made[side], made[f"{side}_offsets"] = _joined(arrays[side], arrays[f"{side}_offsets"], back, mark)
    return made


def _joined(flat: np.ndarray, offsets: np.ndarray, back: np.ndarray, mark: int) -> tuple[np.ndarray, np.ndarray]:
    """Row i becomes rows i - back[i] … i with a mark between them: ids end to end, and offsets Int[N + 1]."""
    counts = back + 1
    ends = np.cumsum(counts)
    inner = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    rows = np.repeat(np.arange(len(back)) - back, counts) + inner
    lengths = offsets[rows + 1] - offsets[rows]
    marked = np.ones(len(rows), dtype=np.int64)
    marked[ends - 1] = 0  # no mark after the last of each
    after = np.cumsum(lengths + marked)
    steps = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    made = np.full(int(after[-1]) if len(after) else 0, mark, dtype=flat.dtype)
    made[np.repeat(after - lengths - marked, lengths) + steps] = flat[np.repeat(offsets[rows], lengths) + steps]
    return made, np.concatenate([np.zeros(1, dtype=np.int64), after[ends - 1] if len(ends) else after]).astype(np.int64)


def pairs_with_context(pairs: TokenisedPairs, count: int, between: tuple[int, int], most: int, vary: bool) -> TokenisedPairs:
    """The same of a corpus in memory; itself where `count` is 0."""
    if not count:
        return pairs
    key = f"{pairs.key}-context-{count}-{between}-{most}-{vary}"
    return TokenisedPairs(with_context(pairs.arrays, count, between, most, vary), key, pairs.name)
