from __future__ import annotations

import torch

from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.masks import Causal, Window
from regard.layers.norms import LayerNorm
from regard.layers.positions import Learned, Sinusoidal
from regard.layers.stack import Stack
from regard.layout import Layout

IDS = torch.tensor([[3, 4, 5, 6, 7, 8], [8, 7, 3, 3, 2, 2]])


def stack(*attentions: Attention, **arguments: object) -> Stack:
    return Stack(8, Tokens(9, Sinusoidal()), tuple(Block(a, Dense(8)) for a in attentions), **arguments)


def test_layers_of_unlike_masks_each_get_their_own():
    """Causal, window and all but the first, cached step by step and at once."""
    module = stack(Attention(2, mask=Causal()), Attention(2, 1, mask=Causal() & Window(2)), Attention(2, mask=Causal()))
    decoder = module.build_decoder().double().eval()
    whole = decoder(IDS, decoder.start(None), Layout.unpadded(6))
    state = decoder.start(None, 6)
    steps = [decoder(IDS[:, t : t + 1], state, Layout.unpadded(1, t)) for t in range(6)]
    torch.testing.assert_close(torch.cat(steps, 1), whole, rtol=0, atol=1e-12)
    assert len(decoder.masks) == 2


def test_an_encoder_gives_a_memory():
    encoder = stack(Attention(2)).build_encoder().double().eval()
    layout = Layout.padded([6, 3])
    memory = encoder(IDS, layout)
    assert memory.states.shape == (2, 6, 8)
    assert memory.layout is layout
    assert memory.final is None
    torch.testing.assert_close(memory.states[1:, :3], encoder(IDS[1:, :3], Layout.unpadded(3)).states)
    assert encoder.packs


def test_packed_equals_padded():
    encoder = stack(Attention(2, mask=Causal()), Attention(2)).build_encoder().double().eval()
    got = encoder(IDS[:1], Layout.packed([[4, 2]])).states[0]
    want = [encoder(ids, Layout.unpadded(ids.shape[1])).states[0] for ids in (IDS[:1, :4], IDS[:1, 4:])]
    torch.testing.assert_close(got, torch.cat(want), rtol=0, atol=1e-12)


def test_the_last_norm_and_the_limit():
    module = Stack(8, Tokens(9, Learned(6)), (Block(Attention(2), Dense(8), placement="pre"),), LayerNorm())
    encoder = module.build_encoder()
    states = encoder(IDS, Layout.unpadded(6)).states
    torch.testing.assert_close(states.mean(-1), torch.zeros(2, 6), rtol=0, atol=1e-5)
    assert encoder.limit == 6
    assert encoder.d_model == 8


def test_without_room_nothing_is_kept():
    decoder = stack(Attention(2, mask=Causal())).build_decoder()
    assert decoder.start(None).caches == []
    assert len(decoder.start(None, 3).caches) == 1
