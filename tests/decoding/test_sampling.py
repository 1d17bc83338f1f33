"""Drawing tokens: which ones, how often, and never by the batch mates' leave."""

from __future__ import annotations

import pytest
import torch

from regard.decoding import Search
from regard.decoding.sampling import Sampler, draws, filtered

P = torch.tensor([[0.05, 0.4, 0.1, 0.4, 0.05]], dtype=torch.float64)


def kept(**options):
    probabilities, ids = filtered(P.log(), Search(sample=True, **options))
    return {int(i): float(p) for p, i in zip(probabilities[0], ids[0], strict=True) if p > 0}


def test_filters() -> None:
    assert list(kept()) == [1, 3, 2, 0, 4]
    assert kept(top_k=2) == pytest.approx({1: 0.5, 3: 0.5})
    assert list(kept(top_k=1)) == [1]
    assert list(kept(top_p=0.79)) == [1, 3]
    assert list(kept(top_p=0.81)) == [1, 3, 2]
    assert list(kept(top_p=0.0)) == [1]
    assert list(kept(min_p=0.2)) == [1, 3, 2]
    assert list(kept(min_p=1.0)) == [1, 3]
    hot = kept(temperature=0.5)
    assert hot[1] / hot[2] == pytest.approx(16.0)


def test_draws_follow_the_probabilities() -> None:
    count = 20_000
    sampler = Sampler(Search(sample=True), draws(1, [(n, 0) for n in range(count)], [1] * count))
    tokens = sampler(P.log().expand(count, -1), 0, torch.arange(count))
    share = torch.bincount(tokens, minlength=5) / count
    assert torch.allclose(share.double(), P[0], atol=0.015)


def test_impossible_tokens_are_never_drawn() -> None:
    logits = torch.tensor([[0.0, -torch.inf, 0.0, -torch.inf]])
    for u in (0.0, 0.5, 0.999999999):
        sampler = Sampler(Search(sample=True), torch.tensor([[u]], dtype=torch.float64))
        assert int(sampler(logits, 0, torch.tensor([0]))) in (0, 2)


def test_draws_depend_on_seed_and_number_alone() -> None:
    names, counts = [(5, 0), (5, 1), (6, 0)], [40, 40, 9]
    table = draws(3, names, counts)
    assert torch.equal(table[1:2], draws(3, names[1:2], counts[1:2]))
    assert torch.equal(table[2, :9], draws(3, names[2:], counts[2:])[0])
    assert len({tuple(row[:5].tolist()) for row in (*table, *draws(4, names, counts))}) == 6


def test_samples_in_any_batch_and_order(table) -> None:
    model = table(lambda source, read: {4: 0.3, 5: 0.3, 6: 0.2, 3: 0.2}, 8)
    options, sources = Search(sample=True, num_return=3, seed=9, max_length=20), [[5], [6, 4], [7, 4, 4], [5]]
    together = model.find(sources, options)
    backwards = model.find(sources[::-1], options, numbers=[3, 2, 1, 0])[::-1]
    alone = [model.find([source], options, numbers=[n])[0] for n, source in enumerate(sources)]
    assert together == backwards == alone
    assert together[0] != together[3]
    assert together != model.find(sources, Search(sample=True, num_return=3, seed=8, max_length=20))
    for hypotheses in together:
        assert [h.score for h in hypotheses] == sorted((h.score for h in hypotheses), reverse=True)


def test_temperature_zero_and_top_k_above_the_vocabulary_s_beam_11(table) -> None:
    model = table(lambda source, read: {t: (t % 7 + 1) / 300 for t in range(3, 50)}, 50)
    greedy = model.find([[5]], Search(num_beams=1, max_length=8))
    for _ in range(2):
        assert model.find([[5]], Search(sample=True, temperature=0, max_length=8)) == greedy
    free = model.find([[5]], Search(sample=True, max_length=8))
    assert model.find([[5]], Search(sample=True, top_k=1000, max_length=8)) == free
    assert model.find([[5]], Search(sample=True, top_k=1, max_length=8)) == greedy
