"""The next token, hidden tokens, a drawn order."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from regard.batches.objectives_language import Masked, NextToken, Permutation
from regard.layers.heads import IGNORED
from regard.models import gpt2

NONE = np.zeros(0, dtype=np.int64)
MASK = 9


def noise(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_next_token_and_documents_apart() -> None:
    row = np.array([1, 5, 6, 2, 1, 7, 2]), np.array([4, 3])
    batch = NextToken(0)([row, (np.array([1, 8, 2]), NONE)], [3, 4], noise())
    assert batch.inputs.tolist() == [[1, 5, 6, 1, 7], [1, 8, 0, 0, 0]]
    assert batch.targets is not None
    assert batch.targets.tolist() == [[5, 6, 2, 7, 2], [8, 2, *[IGNORED] * 3]]
    assert batch.layout is not None
    assert batch.layout.position.tolist() == [[0, 1, 2, 0, 1], [0, 1, 0, 0, 0]]
    assert batch.layout.document.tolist() == [[0, 0, 0, 1, 1], [0, 0, -1, -1, -1]]
    assert (batch.target_tokens, batch.examples) == (7, [3, 4])
    widths = NextToken(0).widths(np.array([7, 3]), np.array([2, 0]))
    assert widths[0].tolist() == [5, 2]


def test_packed_documents_have_the_loss_that_they_have_alone() -> None:
    torch.manual_seed(0)
    model = gpt2.describe(vocab_size=13, num_layers=2, d_model=8, num_heads=2, max_positions=16, dropout=0.0).build().eval()
    documents = [np.array([1, 5, 6, 2]), np.array([1, 7, 8, 9, 2]), np.array([1, 2])]
    packed = NextToken(0)([(np.concatenate(documents), np.array([4, 5, 2]))], [0], noise())
    together = model(packed.inputs, layout=packed.layout).logits[0]
    at = 0
    for one in documents:
        alone = NextToken(0)([(one, NONE)], [0], noise())
        torch.testing.assert_close(together[at : at + len(one) - 1], model(alone.inputs).logits[0], rtol=1e-5, atol=1e-5)
        at += len(one) - 1


def masked(share: float = 0.15, begins: np.ndarray | None = None) -> Masked:
    special = np.zeros(200, dtype=bool)
    special[:10] = True
    return Masked(MASK, special, np.arange(10, 200), begins, share)


def test_hidden_are_fifteen_in_a_hundred_by_three_kinds() -> None:
    ids = np.concatenate([[1], np.arange(10, 110), [2]])
    kinds: Counter[str] = Counter()
    for seed in range(60):
        batch = masked()([(ids, NONE)], [0], noise(seed))
        assert batch.targets is not None
        seen, wanted = batch.inputs[0].numpy(), batch.targets[0].numpy()
        chosen = wanted != IGNORED
        assert chosen.sum() == 15 == batch.target_tokens
        assert (wanted[chosen] == ids[chosen]).all()
        assert (seen[~chosen] == ids[~chosen]).all()
        assert not chosen[0]
        assert not chosen[-1]
        for now, before in zip(seen[chosen], ids[chosen]):
            kinds["mask" if now == MASK else "same" if now == before else "other"] += 1
            assert now == MASK or now >= 10
    total = sum(kinds.values())
    assert kinds["mask"] / total == pytest.approx(0.8, abs=0.05)
    assert kinds["other"] / total == pytest.approx(0.1, abs=0.04)
    assert kinds["same"] / total == pytest.approx(0.1, abs=0.04)


def test_what_is_hidden_depends_on_the_noise_alone() -> None:
    ids = np.arange(10, 60)
    one, same, other = (masked()([(ids, NONE)], [0], noise(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.inputs, same.inputs)
    assert not torch.equal(one.inputs, other.inputs)
    assert masked()([(np.array([1, 11, 2]), NONE)], [0], noise()).target_tokens == 1  # at least one


def test_whole_words_are_hidden_whole() -> None:
    begins = np.zeros(200, dtype=bool)
    begins[10::2] = True  # even ids begin a word, odd ones go on with it
    ids = np.array([1, 10, 11, 13, 12, 14, 15, 16, 18, 20, 21, 2])
    words = [(1, 4), (4, 5), (5, 7), (7, 8), (8, 9), (9, 11)]
    for seed in range(40):
        chosen = set(masked(0.3, begins).chosen(ids, noise(seed)).tolist())
        hit = [word for word in words if chosen & set(range(*word))]
        assert chosen == {place for word in hit for place in range(*word)}
        assert 1 <= len(chosen) <= 3


def test_documents_in_a_row_are_hidden_each_and_kept_apart() -> None:
    row = np.array([1, 10, 11, 2, 1, 12, 2]), np.array([4, 3])
    batch = masked()([row], [0], noise())
    assert batch.layout is not None
    assert batch.layout.document.tolist() == [[0, 0, 0, 0, 1, 1, 1]]
    assert batch.target_tokens == 2


def test_an_order_of_prediction() -> None:
    ids = np.arange(10, 42)
    objective = Permutation(share=0.25, fixed=2)
    for seed in range(20):
        batch = objective([(ids, NONE), (ids[:5], NONE)], [0, 1], noise(seed))
        assert batch.layout is not None
        assert batch.layout.mark is not None
        assert batch.targets is not None
        order = batch.layout.mark[0].numpy()
        assert sorted(order[order > 0].tolist()) == list(range(1, 9))  # round(0.25 × 30)
        assert (order[-2:] == 0).all()
        assert ((batch.targets[0].numpy() != IGNORED) == (order > 0)).all()
        assert (batch.targets[0].numpy()[order > 0] == ids[order > 0]).all()
        assert (batch.layout.mark[1, 5:] == 0).all()
        assert batch.inputs[0].tolist() == ids.tolist()
    assert objective.order(1, noise()).tolist() == [1]
