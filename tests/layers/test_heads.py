from __future__ import annotations

import pytest
import torch

from regard.layers.heads import IGNORED, Classify, NextToken, Targets, chosen
from regard.layout import Layout


def identity() -> torch.nn.Module:
    head = NextToken(3).build(3)
    with torch.no_grad():
        head.project.weight.copy_(torch.eye(3))
    return head


@pytest.mark.parametrize("padding", [0, 1, 5])
def test_s_loss_01_padding_is_not_charged(padding):
    """S-LOSS-01: 3 classes, smoothing 0.1, logits [2, 0, 0], target 0: 0.3729 with or without padding."""
    hidden = torch.zeros(1, 1 + padding, 3)
    hidden[0, 0, 0] = 2.0
    ids = torch.tensor([[0] + [IGNORED] * padding])
    answer = identity()(hidden, Layout.padded([1], 1 + padding), Targets(ids, 0.1))
    assert answer.count == 1
    assert (answer.loss_sum / answer.count).item() == pytest.approx(0.3729, abs=5e-5)
    assert answer.logits is None


def test_without_targets_there_are_logits_alone():
    hidden = torch.randn(2, 4, 3)
    answer = identity()(hidden, Layout.unpadded(4))
    torch.testing.assert_close(answer.logits, hidden)
    assert answer.loss_sum is None
    assert (answer.count, answer.penalties) == (0, {})


def test_nothing_to_predict_costs_nothing():
    answer = identity()(torch.randn(1, 2, 3, requires_grad=True), Layout.unpadded(2), Targets(torch.tensor([[IGNORED] * 2])))
    answer.loss_sum.backward()
    assert (answer.loss_sum.item(), answer.count) == (0.0, 0)


def test_the_bias_is_an_option():
    assert NextToken(5).build(3).project.bias is None
    assert NextToken(5, bias=True).build(3).project.bias.shape == (5,)


def test_a_head_is_chosen_by_name_or_refused_in_words():
    heads = {"next": NextToken(5), "class": Classify(3), "tokens": Classify(0, "tokens")}
    assert chosen(heads, "next") == NextToken(5)
    assert chosen(heads, "class").classes == 3
    with pytest.raises(ValueError, match=r"^head must be 'next', 'class' or 'tokens', not 'vector'$"):
        chosen(heads, "vector")
    with pytest.raises(ValueError, match="'tokens' needs the number of `classes`"):
        chosen(heads, "tokens")
