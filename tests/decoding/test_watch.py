"""What the decoder looked at: coverage, and the most attended source token."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from regard.decoding import Search
from regard.decoding.search import search
from regard.decoding.watch import coverage, looks, most_attended, watching
from regard.errors import UserError
from regard.layout import Layout
from regard.models import rnn, transformer

BOS, EOS = 2, 3
DESCRIPTIONS = {
    "transformer": transformer.describe(vocab_size=6, num_layers=2, d_model=8, d_ff=16, num_heads=2),
    "additive": rnn.describe(vocab_size=6, d_model=8, attention="additive"),
    "dot": rnn.describe(vocab_size=6, d_model=8, attention="dot"),
}


def tiny(name):
    torch.manual_seed(0)
    model = DESCRIPTIONS[name].build().double().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.6)
    return model


@torch.inference_mode()
def by_hand(model, source, tokens):
    """Log-probability of tokens and the sums of the last layer's attention, from a pass over the whole sentence."""
    asked = []
    handle = looks(model)[-1].register_forward_hook(
        lambda module, given, out: asked.append(module.explain(*given[:2], given[3]))
    )
    outputs = torch.tensor([[BOS, *tokens[:-1]]])
    layouts = {"layout": Layout.unpadded(len(source)), "output_layout": Layout.unpadded(len(tokens))}
    logits = model(torch.tensor([source]), outputs, **layouts).logits[0].log_softmax(-1)
    handle.remove()
    weights = torch.cat(asked, 2)[0].mean(0)
    assert weights.shape == (len(tokens), len(source))
    return float(logits[torch.arange(len(tokens)), torch.tensor(tokens)].sum()), weights


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_coverage_penalty_is_the_published_formula(name) -> None:
    """All answers of up to three tokens, scored by the formula; two sentences of unequal lengths in one batch."""
    model, limit, beta = tiny(name), 3, 0.4
    sources = [[4, 5, 4, 3], [5, 3]]
    ids, layout = torch.tensor([[4, 5, 4, 3], [5, 3, 0, 0]]), Layout.padded([4, 2])
    options = Search(
        200, 0.7, "gnmt", beta, max_length=limit, num_return=20, stopping="exhaustive", suppress_tokens=(0, 1, 2)
    )
    found = search(model, ids, layout, options, BOS, EOS)
    for source, hypotheses in zip(sources, found, strict=True):
        every = []
        for length in range(1, limit + 1):
            for start in itertools.product((4, 5), repeat=length - 1):
                for last in (EOS, 4, 5) if length == limit else (EOS,):
                    log_prob, weights = by_hand(model, source, [*start, last])
                    covered = float(weights.sum(0).clamp(max=1.0).log().sum())
                    score = log_prob / ((5 + length) / 6) ** 0.7 + beta * covered
                    every.append((score, [*start, last]))
        every.sort(reverse=True)
        assert len(hypotheses) == len(every) == 15
        for hypothesis, (score, tokens) in zip(hypotheses, every, strict=True):
            assert hypothesis.ids + [EOS] * hypothesis.finished == tokens
            assert hypothesis.score == pytest.approx(score, abs=1e-10)


def test_coverage_leaves_padding_alone() -> None:
    seen = torch.tensor([[0.5, 2.0, 0.0], [0.25, 0.0, 0.0]])
    real = torch.tensor([[True, True, True], [True, False, False]])
    found = coverage(seen, real)
    assert found[1] == pytest.approx(torch.tensor(0.25).log())
    assert found[0] == pytest.approx(float(torch.tensor(0.5).log() + torch.tensor(1e-9).log()))


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_most_attended_never_is_the_end_mark_s_beam_12(name) -> None:
    model, source, tokens = tiny(name), [4, 5, 4, 5, 3], [5, 4, 4]
    _, weights = by_hand(model, source, tokens)
    assert most_attended(model, source, tokens, BOS) == weights[:, :4].argmax(1).tolist()
    assert most_attended(model, [EOS], tokens, BOS) == []
    assert most_attended(model, source, [], BOS) == []


@pytest.mark.parametrize("weights", [(0.02, 0.03, 0.5, 0.45), (0.02, 0.03, 0.45, 0.5)])
def test_unknown_word_and_end_mark_swapped_s_beam_12(weights, monkeypatch) -> None:
    model = tiny("dot")
    fixed = torch.tensor(weights, dtype=torch.float64)[None, None, None]
    monkeypatch.setattr(looks(model)[-1], "explain", lambda *given: fixed)
    assert most_attended(model, [4, 5, 1, 3], [4, 5, 1], BOS)[-1] == 2


def test_a_model_that_does_not_look_says_so() -> None:
    model = rnn.describe(vocab_size=6, d_model=8, attention="none").build()
    with pytest.raises(UserError, match="coverage_penalty needs attention"), watching(model, "coverage_penalty"):
        pass
    with pytest.raises(UserError, match="coverage_penalty"):
        search(model, torch.tensor([[4, 3]]), Layout.unpadded(2), Search(coverage_penalty=0.2), BOS, EOS)
