from __future__ import annotations

import pytest
import torch

from regard.architecture import Description, Model, Targets
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import NextToken
from regard.layers.masks import Causal
from regard.layers.recurrent import Recurrent
from regard.layers.recurrent_decoder import RecurrentDecoder
from regard.layers.scores import Dot
from regard.layers.stack import Stack
from regard.layout import Layout

SEEING = Stack(8, Tokens(9), (Block(Attention(2), Dense(8)),))
READING = Stack(8, Tokens(9), (Block(Attention(2, mask=Causal()), Dense(8), Attention(2, cross=True)),))
ALONE = Stack(8, Tokens(9), (Block(Attention(2, mask=Causal()), Dense(8)),))
HEAD = NextToken(9)
IDS = torch.tensor([[3, 4, 5, 0], [6, 7, 0, 0]])


def made(**arguments: object) -> Model:
    torch.manual_seed(0)
    return Description(HEAD, pad=0, **arguments).build().double().eval()


def test_a_decoder_alone_takes_its_tokens_as_inputs():
    model = made(decoder=ALONE)
    torch.testing.assert_close(model(IDS).logits[1, :2], model(IDS[1:, :2]).logits[0])
    left = torch.tensor([[3, 4, 5], [0, 6, 7]])
    torch.testing.assert_close(model(left).logits[1, 1:], model(IDS[1:, :2]).logits[0])
    assert model(IDS, targets=Targets(IDS)).count == 8
    with pytest.raises(TypeError, match="no encoder"):
        model.encode(IDS)


def test_an_encoder_alone_answers_each_token():
    model = made(encoder=SEEING)
    torch.testing.assert_close(model(IDS).logits[1, :2], model(IDS[1:, :2]).logits[0])
    with pytest.raises(TypeError, match="no decoder"):
        model.start(None, 3)


def test_only_the_right_end_of_outputs_is_padding():
    """A decoder may start from pad: position 0 of outputs is always real."""
    model = made(encoder=SEEING, decoder=READING)
    outputs = torch.tensor([[0, 0, 5, 0]])
    given = model(IDS[:1, :3], outputs, output_layout=Layout.padded([3], 4)).logits
    torch.testing.assert_close(model(IDS[:1], outputs).logits[:, :3], given[:, :3])
    with pytest.raises(TypeError, match="outputs"):
        model(IDS)


@pytest.mark.parametrize("attention", [None, Dot()])
def test_families_mix(attention):
    """A recurrent decoder reads a memory of blocks, and blocks read a recurrent one's, cached and at once alike."""
    for encoder, decoder in (
        (SEEING, RecurrentDecoder(8, Tokens(9), "lstm", 2, attention)),
        (Recurrent(8, Tokens(9)), READING),
    ):
        model = made(encoder=encoder, decoder=decoder)
        outputs = torch.tensor([[2, 4, 6], [2, 8, 3]])
        whole = model(IDS, outputs).logits
        state = model.start(model.encode(IDS), 3)
        steps = [model.step(outputs[:, t : t + 1], state) for t in range(3)]
        torch.testing.assert_close(torch.stack(steps, 1), whole)
        torch.testing.assert_close(whole[1:], model(IDS[1:, :2], outputs[1:]).logits)


def test_tied_weights_are_one_parameter():
    for tied, count in (("no", 3), ("head", 2), ("all", 1)):
        model = made(encoder=SEEING, decoder=READING, tied=tied)
        matrices = {id(m.weight) for m in (model.head.project, model.encoder.embed.tokens, model.decoder.embed.tokens)}
        assert len(matrices) == count
    assert made(encoder=SEEING, tied="head").head.project.weight.shape == (9, 8)


def test_what_cannot_be_is_refused_in_words():
    with pytest.raises(ValueError, match="encoder or a decoder"):
        made()
    with pytest.raises(ValueError, match="tied"):
        made(encoder=SEEING, tied="both")
    model = made(encoder=Recurrent(8, Tokens(9)), decoder=RecurrentDecoder(8, Tokens(9)))
    with pytest.raises(ValueError, match="packed"):
        model(IDS, IDS, layout=Layout.packed([[1, 3], [4]]))
    assert not model.packs
    assert made(encoder=SEEING, decoder=READING).packs


def test_a_model_knows_where_it_is():
    assert made(encoder=SEEING).device == torch.device("cpu")
