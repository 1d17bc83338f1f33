from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.models import rnn

SMALL = {"vocab_size": 13, "d_model": 8}


def test_published_defaults():
    """Bahdanau asks before a token and has a bridge; Luong asks after; Sutskever hands the state over as it is."""
    assert rnn.describe(**SMALL, attention="additive").decoder.query == "previous"
    assert rnn.describe(**SMALL, attention="dot").decoder.query == "current"
    assert rnn.describe(**SMALL, attention="additive").decoder.bridge
    assert not rnn.describe(**SMALL, cell="lstm", both_ways=False).decoder.bridge
    assert rnn.describe(**SMALL, both_ways=False, context="every_step").decoder.bridge


def test_embeddings_are_tied_where_vocabularies_are_one():
    one, two = rnn.describe(**SMALL, d_embed=6), rnn.describe(**SMALL, target_vocab_size=11)
    assert (one.tied, two.tied) == ("all", "head")
    model = one.build()
    assert model.head.project.weight is model.encoder.embed.tokens.weight
    assert model.head.project.weight.shape == (13, 6)
    assert two.build().head.project.weight.shape == (11, 8)


def test_only_location_bounds_the_sentence():
    assert rnn.describe(**SMALL, attention="location", max_length=7).build().encoder.limit == 7
    assert rnn.describe(**SMALL, attention="additive").build().encoder.limit is None
    model = rnn.describe(**SMALL, attention="location", max_length=3).build()
    with pytest.raises(ValueError, match=r"4 tokens.*3 positions"):
        model(torch.ones(1, 4, dtype=torch.long), torch.ones(1, 2, dtype=torch.long))


def test_unknown_attention_is_refused_with_the_known():
    with pytest.raises(ValueError, match=r"none, additive, .*, not 'soft'"):
        rnn.describe(**SMALL, attention="soft")


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_initial_weights_are_as_published(cell):
    """Orthogonal recurrent matrices gate by gate, zero biases, an LSTM's forget gate open."""
    torch.manual_seed(0)
    model = rnn.describe(**SMALL, cell=cell, num_layers=2, attention="additive").build()
    rnn.initialise(model)
    layers = [module for module in model.modules() if isinstance(module, nn.RNNBase)]
    assert len(layers) == 4
    for layer in layers:
        for name, weight in layer.named_parameters():
            gates = weight.detach().split(layer.hidden_size)
            if "_hh_" in name and "weight" in name:
                for gate in gates:
                    torch.testing.assert_close(gate @ gate.t(), torch.eye(layer.hidden_size))
            if "bias" in name:
                opened = [float(cell == "lstm" and name.startswith("bias_ih") and i == 1) for i in range(len(gates))]
                assert [gate.unique().tolist() for gate in gates] == [[value] for value in opened]


@pytest.mark.parametrize(
    "arguments", [{}, {"attention": "additive"}, {"cell": "lstm", "attention": "general", "input_feeding": True}]
)
def test_a_tiny_model_learns_to_reverse(arguments):
    """Learning at all: sequences of 3 out of 5 symbols, reversed; most come out right after 150 small steps."""
    from regard.architecture import Targets

    torch.manual_seed(0)
    model = rnn.describe(vocab_size=8, d_model=32, dropout=0.0, **arguments).build()
    rnn.initialise(model)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for _ in range(150):
        source = torch.randint(3, 8, (32, 3))
        target = source.flip(1)
        outputs = torch.cat([torch.full((32, 1), 2), target[:, :-1]], 1)
        answer = model(source, outputs, targets=Targets(target))
        (answer.loss_sum / answer.count).backward()
        optimizer.step()
        optimizer.zero_grad()
    logits = model.eval()(source, outputs).logits
    assert (logits.argmax(-1) == target).double().mean() > 0.95
