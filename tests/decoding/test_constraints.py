"""What may not be written is not; what may keeps its log-probability."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from regard.decoding import Search
from regard.decoding.constraints import Constraints

EOS = 3


def applied(options, ids, prefix=None, rows=1, vocab=8):
    logits = torch.arange(rows * vocab, dtype=torch.float64).reshape(rows, vocab) / 10
    history = torch.tensor(ids, dtype=torch.long).reshape(rows, -1)
    rules = Constraints(options, EOS, prefix, None)
    assert rules.acts(history.shape[1])
    changed = rules.apply(logits.clone(), logits.logsumexp(1), history, torch.arange(rows))
    return logits, changed


def forbidden(changed, row=0):
    return (changed[row] == -math.inf).nonzero()[:, 0].tolist()


def test_minimum_length_and_suppressed_tokens() -> None:
    logits, changed = applied(Search(min_length=2, suppress_tokens=(0, 5)), [[4]])
    assert forbidden(changed) == [0, 3, 5]
    left = [1, 2, 4, 6, 7]
    assert torch.equal(changed[0, left], logits[0, left])
    assert not Constraints(Search(min_length=2), EOS, None, None).acts(2)


@pytest.mark.parametrize(
    ("size", "ids", "wanted"),
    [
        (1, [4, 6], [4, 6]),
        (2, [4, 5, 4], [5]),
        (2, [4, 4], [4]),
        (3, [4, 5, 6, 4, 5], [6]),
        (3, [4, 5, 6, 4, 5, 7, 4, 5], [6, 7]),
        (3, [4, 5, 6, 7], []),
    ],
)
def test_no_ngram_twice(size, ids, wanted) -> None:
    _, changed = applied(Search(no_repeat_ngram_size=size), [ids])
    assert forbidden(changed) == wanted


def test_no_ngram_twice_in_whole_answers(table) -> None:
    model = table(lambda source, read: {4: 0.6, 5: 0.3, 6: 0.09, EOS: 0.01}, 8)
    for beams in (1, 3):
        ids = model.find([[5]], Search(num_beams=beams, no_repeat_ngram_size=2, max_length=30))[0][0].ids
        pairs = list(itertools.pairwise(ids))
        assert len(pairs) > 4
        assert len(set(pairs)) == len(pairs)


def test_repetition_penalty_weighs_log_probabilities() -> None:
    logits, changed = applied(Search(repetition_penalty=2.0), [[4, 6, 4]])
    norm = logits.logsumexp(1)
    for token in range(8):
        factor = 2.0 if token in (4, 6) else 1.0
        assert float(changed[0, token] - norm) == pytest.approx(factor * float(logits[0, token] - norm))


def test_prefix_leaves_one_token_and_its_log_probability() -> None:
    logits, changed = applied(Search(min_length=9), [[5], [4]], prefix=[[5, 3], [4]], rows=2)
    assert forbidden(changed) == [0, 1, 2, 4, 5, 6, 7]
    assert changed[0, 3] == logits[0, 3]
    assert forbidden(changed, 1) == [3]


def test_an_answer_may_end_when_nothing_else_is_left(table) -> None:
    model = table(lambda source, read: {4: 0.5, 5: 0.4, EOS: 0.1}, 6)
    for beams in (1, 3):
        best = model.find([[5]], Search(num_beams=beams, no_repeat_ngram_size=1, min_length=5, max_length=9))[0][0]
        assert sorted(best.ids) == [4, 5]
        assert best.finished


def test_rows_are_looked_through_for_what_is_left() -> None:
    """Of the first ids none is left in two rows: one has another, one has nothing and may end."""
    logits = torch.zeros(3, 200, dtype=torch.float64)
    logits[1:, :100] = -math.inf
    logits[2, 100:] = -math.inf
    logits[:, EOS] = torch.tensor([0.0, 1.0, 2.0])
    rules = Constraints(Search(suppress_tokens=(EOS,)), EOS, None, None)
    changed = rules.apply(logits.clone(), logits.logsumexp(1), torch.zeros(3, 0, dtype=torch.long), torch.arange(3))
    assert changed[:, EOS].tolist() == [-math.inf, -math.inf, 2.0]
