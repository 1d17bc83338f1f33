"""Spans behind sentinels, and BART's noise: from what is left and what is asked the text can be put together again."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.batches.objectives_corrupt import Denoising, Spans

NONE = np.zeros(0, dtype=np.int64)
SENTINELS = tuple(range(100, 110))
EOS, MASK = 3, 9


def noise(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def together(source: list[int], target: list[int]) -> list[int]:
    """The text of a source with sentinels and a target that says what they stand for."""
    gone: dict[int, list[int]] = {}
    now = -1
    for token in target[:-1]:
        if token in SENTINELS:
            now = token
            gone[now] = []
        else:
            gone[now].append(token)
    return [one for token in source[:-1] for one in (gone[token] if token in SENTINELS else [token])]


@given(st.integers(1, 60), st.integers(0, 1000), st.sampled_from([0.15, 0.3, 0.5]), st.sampled_from([1.0, 3.0]))
def test_source_and_target_are_the_whole_text(length: int, seed: int, share: float, mean: float) -> None:
    ids = np.arange(10, 10 + length)
    objective = Spans(SENTINELS, share, mean, eos=EOS)
    source, target = objective.corrupted(ids, noise(seed))
    assert source[-1] == target[-1] == EOS
    assert together(source.tolist(), target.tolist()) == ids.tolist()
    widths = objective.widths(np.array([length]), np.array([0]))
    assert len(source) <= widths[0][0]
    assert len(target) <= widths[1][0]


def test_spans_have_the_share_and_the_mean_that_were_asked() -> None:
    ids = np.arange(200, 300)
    lengths: list[int] = []
    for seed in range(50):
        source, target = Spans(SENTINELS, 0.15, 3.0).corrupted(ids, noise(seed))
        assert len(target) == 15 + 5 + 1
        assert source[0] == 200  # a text begins outside a span, and ends in one
        assert source[-2] in SENTINELS
        assert [token for token in source if token in SENTINELS] == list(SENTINELS[:5])
        lengths += np.diff(np.flatnonzero(np.isin(target, [*SENTINELS, EOS]))).tolist()
    assert np.mean(lengths) == 4  # a sentinel and three tokens
    assert len(set(lengths)) > 3


def test_a_batch_of_spans() -> None:
    batch = Spans(SENTINELS, 0.5, 2.0, pad=0, start=2, eos=EOS)(
        [(np.arange(10, 20), NONE), (np.array([11, 12]), NONE)], [5, 6], noise()
    )
    assert batch.outputs is not None
    assert batch.targets is not None
    assert batch.outputs[:, 0].tolist() == [2, 2]
    real = batch.targets[0] >= 0
    assert batch.outputs[0, 1:].tolist() == batch.targets[0, :-1].tolist()
    assert int(real.sum()) + int((batch.targets[1] >= 0).sum()) == batch.target_tokens
    assert batch.layout is not None
    assert batch.layout.lengths(2).tolist() == [8, 3]
    assert batch.examples == [5, 6]


def ruins(ids: np.ndarray, seed: int = 0, **options: object) -> list[int]:
    ends = np.zeros(300, dtype=bool)
    ends[50] = True
    plain = {"share": 0.0, "shuffle": False} | options
    return Denoising(MASK, ends, **plain).ruined(ids, noise(seed)).tolist()  # type: ignore[arg-type]


def test_each_kind_of_damage_alone() -> None:
    ids = np.array([10, 11, 50, 12, 50, 13, 14, 15])
    assert ruins(ids) == ids.tolist()
    shuffled = {tuple(ruins(ids, seed, shuffle=True)) for seed in range(40)}
    assert len(shuffled) == 6  # three sentences, the last without an end
    assert all(sorted(one) == sorted(ids.tolist()) and "10, 11, 50" in str(one) for one in shuffled)
    turned = {tuple(ruins(ids, seed, rotate=1.0)) for seed in range(60)}
    assert turned == {tuple(np.roll(ids, shift).tolist()) for shift in range(8)}
    left = ruins(ids, delete=0.25)
    assert len(left) == 6
    assert not Counter(left) - Counter(ids.tolist())


@given(st.integers(1, 80), st.integers(0, 500), st.sampled_from([0.15, 0.3, 0.9]))
def test_spans_become_one_mask_each_and_never_touch(length: int, seed: int, share: float) -> None:
    ids = np.arange(100, 100 + length)
    left = ruins(ids, seed, share=share)
    kept = [token for token in left if token != MASK]
    assert kept == sorted(kept)
    assert len(left) <= length
    assert length - len(kept) <= round(share * length)


def test_the_share_that_is_hidden_and_masks_for_nothing() -> None:
    ids = np.arange(100, 200)
    hidden, empty = [], 0
    for seed in range(200):
        left = ruins(ids, seed, share=0.3)
        hidden.append(100 - sum(token != MASK for token in left))
        kept = [token for token in left if token != MASK]
        gaps = sum(b - a > 1 for a, b in zip([99, *kept], [*kept, 200]))
        empty += left.count(MASK) - gaps
    assert np.mean(hidden) == pytest.approx(30, abs=0.5)
    assert 0.2 < empty / 200 < 1.5  # of a Poisson with mean 3 one length in twenty is 0


def test_a_batch_of_ruins_asks_for_the_whole_text() -> None:
    ends = np.zeros(300, dtype=bool)
    objective = Denoising(MASK, ends, before=(0,), after=(2,), start=2, pad=1)
    ids = np.arange(10, 30)
    batch = objective([(ids, NONE)], [0], noise())
    assert batch.targets is not None
    assert batch.outputs is not None
    assert batch.targets[0].tolist() == [0, *ids.tolist(), 2]
    assert batch.outputs[0].tolist() == [2, 0, *ids.tolist()]
    assert batch.inputs[0, 0] == 0
    assert batch.inputs[0, -1] == 2
    assert objective.widths(np.array([20]), np.array([0]))[0].tolist() == [22]
