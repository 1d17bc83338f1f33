"""What a step decides."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from regard.compiled.choice import Aim, Best, Found, Rows, collect, extend, insert, norm_of, over, penalty_of


def best(width: int) -> Best:
    return Best(np.empty(width), np.empty(width, np.int32), np.empty(width, np.int32), np.empty(width))


def aim(**more: float) -> Aim:
    usual = {"beams": 2, "penalty": 1.0, "gnmt": False, "first": False, "far": False, "min_length": 0, "first_token": -1}
    return Aim(**(usual | {"eos": 0} | more))


def test_the_norm_of_logits() -> None:
    x = np.random.default_rng(1).standard_normal((2, 77)).astype(np.float32) * 20
    assert norm_of(x, 1) == pytest.approx(float(torch.from_numpy(x[1]).double().logsumexp(0)), rel=1e-6)
    x[1, 5] = -np.inf
    assert math.isfinite(norm_of(x, 1))
    x[1, 76] = np.nan
    assert math.isnan(norm_of(x, 1))
    assert math.isfinite(norm_of(x, 0))


def test_the_best_extensions_of_all_rows_the_first_among_equals() -> None:
    rng, its = np.random.default_rng(2), best(6)
    logits = np.round(rng.standard_normal((3, 200)) * 4, 1).astype(np.float32)  # rounded: many are equal
    norms, totals = rng.standard_normal(3).round(1), rng.standard_normal(3).round(1)
    count = 0
    for row in range(3):
        count = extend(logits, row, norms[row], totals[row], its, count)
    values = totals[:, None] + (logits - norms[:, None])
    order = np.argsort(-values.ravel(), kind="stable")[:6]
    assert count == 6
    assert its.value == pytest.approx(values.ravel()[order])
    assert [(int(r), int(t)) for r, t in zip(its.row, its.token, strict=True)] == [divmod(int(n), 200) for n in order]


def test_fewer_extensions_than_places() -> None:
    its, logits = best(6), np.full((1, 40), -np.inf, np.float32)
    logits[0, [3, 39]] = 1.0, 2.0
    assert extend(logits, 0, 0.0, 0.0, its, 0) == 2
    assert its.token[:2].tolist() == [39, 3]
    assert insert(its, 2, 1.0, 9, 9, 1.0) == 3
    assert its.row[:3].tolist() == [0, 0, 9], "after its equal"


def test_answers_are_kept_in_the_order_of_their_scores() -> None:
    found = Found(
        *(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2), np.int32), np.zeros((1, 2, 4), np.int32)),
        *(np.zeros((1, 2, 4), np.float32), np.zeros(1, np.int32)),
    )
    rows = Rows(np.zeros(1, np.int32), np.zeros(1), np.array([[7, 8, 9]], np.int32), np.zeros((1, 3), np.float32), None)
    rows = rows._replace(past=np.zeros((1, 3), np.int32))
    its = best(4)
    assert not over(0, -1.0, 1, 9, aim(first=True), found)
    for step, value in [(1, -4.0), (2, -3.0), (3, -2.0)]:
        insert(its, 0, value, 0, 5, -1.0)
        collect(its, 0, rows, step, aim(), found, 0)
    assert found.score[0].tolist() == [-0.5, -1.0], "-2 went"
    assert found.ids[0, 0].tolist() == [7, 8, 9, 5]
    assert found.size[0].tolist() == [4, 3]
    assert over(0, -3.0, 2, 9, aim(first=True), found)
    assert over(0, -3.0, 2, 9, aim(), found)
    assert not over(0, -3.0, 2, 9, aim(far=True), found), "at nine tokens it would score better"


def test_penalties() -> None:
    assert penalty_of(4, aim(penalty=0.5)) == 2.0
    assert penalty_of(7, aim(gnmt=True)) == 2.0
    assert penalty_of(7, aim(penalty=0.0)) == 1.0
