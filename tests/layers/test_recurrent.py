from __future__ import annotations

import pytest
import torch

from regard.layers.embeddings import Tokens
from regard.layers.recurrent import CELLS, STEPS, Recurrent, layers_of, run
from regard.layout import Layout


def encoder(**arguments: object):
    torch.manual_seed(0)
    return Recurrent(8, Tokens(9), **arguments).build_encoder().double().eval()


@pytest.mark.parametrize("cell", CELLS)
def test_a_step_is_a_step_of_torch(cell):
    """The cells written for one step against torch's own over a sequence, in double precision."""
    torch.manual_seed(0)
    (layer,) = layers_of(cell, 5, 7, 1).double()
    x, hidden = torch.randn(3, 4, 5).double(), (torch.randn(3, 7).double(),) * (2 if cell == "lstm" else 1)
    states, last = run(layer, x, hidden)
    for t in range(4):
        given = x[:, t] @ layer.weight_ih_l0.t() + layer.bias_ih_l0
        hidden = STEPS[cell](given, hidden, layer)
        torch.testing.assert_close(hidden[0], states[:, t], rtol=0, atol=1e-12)
    for got, want in zip(hidden, last, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_s_mask_09_no_direction_reads_padding(cell, both_ways, layers):
    """S-MASK-09: [2, 4, 2] alone, and with padding on the right, on the left and on both sides."""
    module = encoder(cell=cell, both_ways=both_ways, num_layers=layers)
    alone = module(torch.tensor([[2, 4, 2]]), Layout.unpadded(3))
    for ids, layout, begin in (
        ([2, 4, 2, 5, 5], Layout.padded([5, 3]), 0),
        ([5, 5, 2, 4, 2], Layout.padded([5, 3], left=True), 2),
        ([0, 2, 4, 2, 0], Layout.of_ids(torch.tensor([[3] * 5, [0, 2, 4, 2, 0]]), 0), 1),
    ):
        memory = module(torch.tensor([[3, 4, 5, 6, 7], ids]), layout)
        torch.testing.assert_close(memory.states[1, begin : begin + 3], alone.states[0], rtol=0, atol=1e-12)
        assert (memory.states[1][~layout.real[1]] == 0).all()
        for got, want in zip(memory.final, alone.final, strict=True):
            torch.testing.assert_close(got[1], want[0], rtol=0, atol=1e-12)


def test_a_memory_has_the_last_state_of_each_layer():
    memory = encoder(cell="lstm", num_layers=2, both_ways=False)(torch.tensor([[3, 4, 5]]), Layout.unpadded(3))
    assert memory.states.shape == (1, 3, 8)
    assert [t.shape for t in memory.final] == [(1, 2, 8)] * 2
    assert torch.equal(memory.final[0][:, -1], memory.states[:, -1])
    both = encoder(cell="gru")(torch.tensor([[3, 4, 5]]), Layout.unpadded(3))
    assert torch.equal(both.final[0][:, 0], torch.cat([both.states[:, -1, :4], both.states[:, 0, 4:]], -1))


def test_rows_of_nothing_but_padding_do_no_harm():
    memory = encoder()(torch.tensor([[3, 4], [0, 0]]), Layout.of_ids(torch.tensor([[3, 4], [0, 0]]), 0))
    assert memory.states.isfinite().all()
    assert (memory.states[1] == 0).all()


@pytest.mark.parametrize("layout", [Layout.unpadded(3), Layout.padded([3, 2])])
def test_dropout_falls_between_layers_in_training(layout):
    module, ids = encoder(num_layers=2, dropout=0.5).train(), torch.tensor([[3, 4, 5]] * 2)
    assert not torch.equal(module(ids, layout).states, module(ids, layout).states)
    assert torch.equal(encoder(dropout=0.5).train()(ids, layout).states, encoder().eval()(ids, layout).states)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"cell": "sru"}, "'sru'"), ({"num_layers": 0}, "num_layers"), ({"d_model": 7}, "7 is odd")],
)
def test_what_cannot_be_is_refused_in_words(arguments, words):
    with pytest.raises(ValueError, match=words):
        Recurrent(**{"d_model": 8, "embed": Tokens(9), **arguments}).build_encoder()


def test_promises():
    module = encoder(d_embed=6, limit=20)
    assert (module.packs, module.limit, module.d_model) == (False, 20, 8)
    assert module.embed.tokens.weight.shape == (9, 6)
