"""One forced pass: the search's own log-probabilities, the step's own attention."""

from __future__ import annotations

import pytest
import torch

from regard.decoding import Search
from regard.decoding.alignment import by_words, can_look, forced, links
from regard.decoding.generate import translate_ids
from regard.decoding.watch import most_attended
from regard.models import rnn, transformer

BOS, EOS = 2, 3
DESCRIPTIONS = {
    "transformer": transformer.describe(vocab_size=9, num_layers=2, d_model=8, d_ff=16, num_heads=2),
    "additive": rnn.describe(vocab_size=9, d_model=8, attention="additive"),
    "none": rnn.describe(vocab_size=9, d_model=8, attention="none"),
}
SOURCES = [[4, 5, 6, 3], [7, 3], [8, 4, 5, 6, 7, 3]]


@pytest.mark.parametrize("name", DESCRIPTIONS)
@pytest.mark.parametrize("batch_tokens", [1, 1000])
def test_forced_passes_say_what_the_search_said(name, batch_tokens) -> None:
    torch.manual_seed(0)
    model = DESCRIPTIONS[name].build().double()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    found = [h[0] for h in translate_ids(model, SOURCES, Search(num_beams=2, max_length=6), BOS, EOS)]
    model.train()
    passes = forced(model, SOURCES, [(h.ids, h.finished) for h in found], BOS, EOS, batch_tokens)
    assert model.training
    for source, answer, its in zip(SOURCES, found, passes):
        assert its.log_probs == pytest.approx(answer.token_log_probs, abs=1e-5)
        assert (its.weights is None) == (not can_look(model))
        if its.weights is not None:
            assert its.weights.shape == (len(answer.token_log_probs), len(source))
            assert its.weights.sum(1) == pytest.approx(torch.ones(len(its.weights)), abs=1e-5)
            inner = its.weights[: len(answer.ids), : len(source) - 1].argmax(1).tolist()
            assert inner == most_attended(model.eval(), source, answer.ids, BOS)
            model.train()
    assert forced(model, [[]], [([4], True)], BOS, EOS)[0].log_probs == []


def test_words_look_at_words() -> None:
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.7, 0.2], [0.0, 0.2, 0.8]])
    table = by_words(weights, [0, 0, 1], [0, 0, 1], (2, 2))
    assert table == pytest.approx(torch.tensor([[0.8, 0.2], [0.2, 0.8]]))
    assert by_words(weights, [0, -1, 1], [0, 0], (2, 2)) == pytest.approx(torch.tensor([[0.3, 0.2], [0.0, 0.0]]))
    assert links(table) == [(0, 0), (1, 1)]
    assert links(table, 0.2) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert links(torch.zeros(2, 0)) == []
