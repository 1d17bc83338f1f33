"""A search in one call. That it answers as the slow twin does is a contract: `tests/contract/test_compiled.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from regard.compiled.parts import Parts
from regard.compiled.search import Group, Half, caches_of, encode, grown, prompt_places, rows_of, step_places
from regard.layout import Layout


def ints(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def group() -> Group:
    """Prompts of two and three tokens."""
    return Group(ints([7, 8, 0], [4, 5, 6]), ints(2, 3), ints(4, 4), ints(0, 9), ints(9, 2))


def test_sources_side_by_side(build: Any) -> None:
    model = build(placement="pre")
    parts = Parts(model.encoder)
    found = encode(Half(parts.weights, parts.reach(4), parts.form), ints(5, 6, 7, 8, 9), ints(4, 1))
    with torch.inference_mode():
        for ids, rows in (([5, 6, 7, 8], found[:4]), ([9], found[4:])):
            want = model.encode(torch.tensor([ids]), Layout.unpadded(len(ids))).states[0]
            torch.testing.assert_close(torch.from_numpy(rows), want, rtol=1e-5, atol=1e-5)


def test_where_prompts_stand() -> None:
    rows = rows_of(4, 4, 7)
    at = prompt_places(group(), rows)
    assert at.token.tolist() == [7, 8, 4, 5, 6]
    assert at.position.tolist() == [0, 1, 0, 1, 2]
    assert [row[:n] for row, n in zip(at.past.tolist(), at.seen, strict=True)] == [[0], [0, 1], [2], [2, 3], [2, 3, 4]]
    assert (at.first.tolist(), at.length.tolist()) == ([0, 0, 9, 9, 9], [9, 9, 2, 2, 2])
    assert rows.past[:2, :3].tolist() == [[0, 1, 0], [2, 3, 4]]


def test_where_what_was_written_stands() -> None:
    """Two beams of the second sentence share its past and part here."""
    rows = rows_of(4, 4, 7)
    prompt_places(group(), rows)
    rows.sentence[:2], rows.past[:2], rows.ids[:2, 0] = 1, rows.past[1], [11, 12]
    at = step_places(group(), rows, 2, 0, 5)
    assert at.token.tolist() == [11, 12]
    assert at.slot.tolist() == [5, 6]
    assert at.position.tolist() == [3, 3]
    assert at.past[:2, :4].tolist() == [[2, 3, 4, 5], [2, 3, 4, 6]]
    assert at.first.tolist() == [9, 9]


def test_caches_grow_and_keep_what_they_hold(build: Any) -> None:
    parts = Parts(build().decoder)
    held = caches_of(Half(parts.weights, parts.reach(1), parts.form), 3, 2)
    held.keys[:], held.values[:] = 1.0, 2.0
    assert grown(held, 3).keys.shape == (2, 3, 16)
    more = grown(held, 4)
    assert more.keys.shape == (2, 6, 16)
    assert (more.keys[:, :3] == 1.0).all()
    assert (more.values[:, :3] == 2.0).all()
    assert grown(held, 50).keys.shape == (2, 50, 16)
    assert more.across_keys.shape == (2, 2, 16)
