from __future__ import annotations

import pytest
import torch

from regard.layers.embeddings import Tokens
from regard.layers.recurrent_decoder import RecurrentDecoder
from regard.layers.scores import Additive, Dot, General, Location
from regard.layers.state import Memory
from regard.layout import Layout

IDS = torch.tensor([[2, 3, 4, 5], [2, 8, 7, 6]])
LAYOUT = Layout.padded([5, 2])
MEMORY = Memory(torch.randn(2, 5, 8).double(), LAYOUT, (torch.randn(2, 2, 8).double(), torch.randn(2, 2, 8).double()))


def decoder(cell: str = "gru", **arguments: object):
    torch.manual_seed(0)
    its = RecurrentDecoder(8, Tokens(9), cell, num_layers=2, **arguments)
    return its.build_decoder().double().eval()


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"context": "every_step"}, {"attention": General()}, {"attention": Additive()}, {"attention": Location(7)}],
)
def test_both_paths_agree(cell, arguments, monkeypatch):
    """All tokens through each layer at once, and one token after another: same vectors, same state after, same gradients."""
    module, results = decoder(cell, **arguments), []
    one_by_one = module._one_by_one
    for path in (module._at_once, lambda x, state, look: one_by_one(x, state, look, None)):
        monkeypatch.setattr(module, "_at_once", path)
        state = module.start(MEMORY, 4)
        hidden = module(IDS, state, Layout.unpadded(4))
        module.zero_grad()
        hidden.square().sum().backward()
        grads = [weight.grad.clone() for weight in module.parameters()]
        results.append([hidden, *(t for layer in state.hidden for t in layer), *grads])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_attention_is_asked_before_the_token_or_after():
    """Bahdanau's context comes from the state before the token is read, Luong's from the state after."""
    asked = {}
    for query in ("previous", "current"):
        module = decoder(attention=Dot(), query=query)
        module.attend.register_forward_pre_hook(lambda _, inputs, query=query: asked.setdefault(query, inputs))
        state = module.start(MEMORY, 1)
        before = state.hidden[-1][0]
        module(IDS[:, :1], state, Layout.unpadded(1))
        after = state.hidden[-1][0]
        want = before if query == "previous" else after
        assert torch.equal(asked[query][0][:, 0, 0], want)
        assert asked[query][0].shape == (2, 1, 1, 8)
        assert asked[query][1].shape == (2, 1, 5, 8)


@pytest.mark.parametrize(("arguments", "calls"), [({}, 1), ({"query": "previous"}, 4), ({"input_feeding": True}, 4)])
def test_only_what_feeds_back_goes_step_by_step(arguments, calls):
    module, seen = decoder(attention=General(), **arguments), []
    module.attend.register_forward_hook(lambda *_: seen.append(1))
    keys = []
    module.attend.key.register_forward_hook(lambda *_: keys.append(1))
    module(IDS, module.start(MEMORY), Layout.unpadded(4))
    assert (len(seen), len(keys)) == (calls, 1)


def test_location_asks_with_the_token_beside_the_state():
    module, asked = decoder(attention=Location(7), query="previous", d_embed=6), []
    module.attend.register_forward_pre_hook(lambda _, inputs: asked.append(inputs[0]))
    state = module.start(MEMORY, 1)
    before = state.hidden[-1][0]
    module(IDS[:, :1], state, Layout.unpadded(1))
    want = torch.cat([module.embed(IDS[:, :1], Layout.unpadded(1))[:, 0], before], -1)
    torch.testing.assert_close(asked[0][:, 0, 0], want)


def test_the_answer_is_the_published_one():
    """Luong: tanh(W [state; context]); Sutskever: the state; Bahdanau: tanh(W [state; context; token])."""
    whole = Layout.unpadded(4)
    module = decoder(attention=Dot())
    state = module.start(MEMORY, 4)
    hidden = module(IDS, state, whole)
    top = state.hidden[-1][0]
    weights = torch.softmax((MEMORY.states @ top[..., None])[..., 0].masked_fill(~LAYOUT.real, -torch.inf), -1)
    context = (weights[..., None] * MEMORY.states).sum(1)
    torch.testing.assert_close(hidden[:, -1], module.readout(torch.cat([top, context], -1)).tanh())
    plain = decoder()
    state = plain.start(MEMORY, 4)
    assert torch.equal(plain(IDS, state, whole)[:, -1], state.hidden[-1][0])
    assert plain.readout is None
    assert decoder(attention=Dot(), query="previous").readout.in_features == 24


@pytest.mark.parametrize("arguments", [{}, {"attention": Dot()}, {"attention": Dot(), "input_feeding": True}])
@pytest.mark.parametrize("room", [0, 9])
def test_a_state_never_reads_padding(arguments, room):
    module = decoder("lstm", **arguments)
    left = torch.tensor([[0, 0, 2, 3], [2, 8, 7, 6]])
    state = module.start(MEMORY, room)
    hidden = module(left, state, Layout.padded([2, 4], left=True))
    alone = module.start(MEMORY.take(torch.tensor([0])), 9)
    torch.testing.assert_close(hidden[0, 2:], module(left[:1, 2:], alone, Layout.unpadded(2))[0], rtol=0, atol=1e-12)
    for got, want in zip(state.hidden, alone.hidden, strict=True):
        for one, other in zip(got, want, strict=True):
            torch.testing.assert_close(one[0], other[0], rtol=0, atol=1e-12)


def test_input_feeding_feeds_what_was_answered():
    module = decoder(attention=Dot(), input_feeding=True)
    state = module.start(MEMORY, 2)
    first = module(IDS[:, :1], state, Layout.unpadded(1))
    assert torch.equal(state.fed, first[:, 0])
    second = module(IDS[:, 1:2], state, Layout.unpadded(1, 1))
    state = module.start(MEMORY, 2)
    module(IDS[:, :1], state, Layout.unpadded(1))
    state.fed = torch.zeros_like(state.fed)
    assert not torch.allclose(second, module(IDS[:, 1:2], state, Layout.unpadded(1, 1)))


def test_the_first_state_comes_from_the_memory():
    as_it_is, bridged = decoder("lstm", bridge=False).start(MEMORY), decoder("lstm").start(MEMORY)
    assert torch.equal(as_it_is.hidden[1][1], MEMORY.final[1][:, 1])
    want = decoder("lstm").bridge[3](MEMORY.final[1][:, 1]).tanh()
    torch.testing.assert_close(bridged.hidden[1][1], want)
    mean = decoder("lstm", bridge=False).start(Memory(MEMORY.states, LAYOUT)).hidden[0]
    torch.testing.assert_close(mean[0][1], MEMORY.states[1, :2].mean(0))
    assert (mean[1] == 0).all()
    with pytest.raises(ValueError, match=r"encoder of 1 layers.*decoder of 2"):
        decoder().start(Memory(MEMORY.states, LAYOUT, (torch.zeros(2, 1, 8),)))


def test_a_decoder_alone_is_a_language_model():
    module = decoder()
    whole = module(IDS, module.start(None), Layout.unpadded(4))
    state = module.start(None, 4)
    steps = [module(IDS[:, t : t + 1], state, Layout.unpadded(1, t)) for t in range(4)]
    torch.testing.assert_close(torch.cat(steps, 1), whole)
    with pytest.raises(TypeError, match="memory"):
        decoder(attention=Dot()).start(None)


def test_a_state_refuses_to_rewind_in_words():
    with pytest.raises(TypeError, match="cannot forget"):
        decoder().start(MEMORY, 3).rewind(1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"query": "next"}, "'next'"),
        ({"context": "never"}, "'never'"),
        ({"attention": Dot(), "context": "every_step"}, "context must be 'start'"),
        ({"input_feeding": True}, "input_feeding needs attention"),
        ({"attention": Dot(), "query": "previous", "input_feeding": True}, "current"),
        ({"cell": "sru"}, "'sru'"),
    ],
)
def test_what_cannot_be_is_refused_in_words(arguments, words):
    with pytest.raises(ValueError, match=words):
        decoder(**arguments)
