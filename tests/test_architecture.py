from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from regard.architecture import READ, Description, Model, Targets, _Parts, inverse
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.experts import Experts
from regard.layers.feedforward import Dense, Gated
from regard.layers.heads import Classify, Embedding, MaskedToken, NextToken
from regard.layers.masks import Causal
from regard.layers.norms import LayerNorm
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


def chain(*, vocab_size: int, num_layers: int = 1, width: int = 8, tied: bool = False) -> Description:
    """A made-up `describe`: two arguments as in most architectures, one of another name, one told otherwise."""
    stack = Stack(width, Tokens(vocab_size), ALONE.blocks * num_layers)
    return Description(NextToken(vocab_size), decoder=stack, tied="head" if tied else "no")


def test_arguments_are_the_inverse_of_describe():
    arguments = inverse(chain, lambda its: {"width": its.decoder.d_model, "tied": its.tied == "head", "colour": "red"})
    for more in ({}, {"num_layers": 3}, {"tied": True}):
        found = arguments(chain(vocab_size=9, **more))
        assert found == {"vocab_size": 9, "num_layers": 1, "width": 8, "tied": False} | more
    others = (
        Description(HEAD, encoder=SEEING),
        Description(HEAD, decoder=replace(ALONE, last_norm=LayerNorm())),
        Description(HEAD, decoder=replace(ALONE, blocks=())),
        Description(HEAD, Recurrent(8, Tokens(9)), RecurrentDecoder(8, Tokens(9))),
    )
    assert [arguments(other) for other in others] == [None] * 4


def test_what_is_read_off_halves_and_heads():
    """Each half's own numbers, an expert's width, and the four kinds of head by their names."""
    blocks = Block(Attention(4, 2, 6, dropout=0.1), Experts(Gated(12, "gelu")), dropout=0.2, placement="pre")
    first, last = replace(SEEING, blocks=(blocks,) * 3), replace(READING, embed=Tokens(7))
    its = Description(NextToken(7, bias=True), first, last, pad=1)
    names = {name: read(_Parts(its)) for name, read in READ.items() if name not in ("max_positions", "pool")}
    assert names == {
        "vocab_size": 9,
        "target_vocab_size": 7,
        "segments": 0,
        "scaled": False,
        "d_model": 8,
        "num_layers": 3,
        "decoder_layers": 1,
        "placement": "pre",
        "eps": 1e-5,
        "dropout": 0.2,
        "num_heads": 4,
        "decoder_heads": 2,
        "num_kv_heads": 2,
        "head_dim": 6,
        "attention_dropout": 0.1,
        "d_ff": 12,
        "decoder_d_ff": 8,
        "activation": "gelu",
        "activation_dropout": 0.0,
        "gated": True,
        "head": "next",
        "head_bias": True,
        "classes": None,
        "tied": "no",
        "pad": 1,
    }
    heads = {"masked": MaskedToken(9), "class": Classify(3, "last"), "tokens": Classify(3, "tokens"), "vector": Embedding()}
    for name, head in heads.items():
        assert READ["head"](_Parts(Description(head, SEEING))) == name
