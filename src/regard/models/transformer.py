"""The Transformer (Vaswani et al. 2017, "Attention is all you need"), post-norm as published or pre-norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from regard.architecture import Description, inverse
from regard.checkpoints.formats import Format
from regard.checkpoints.rules import Derived, Weights
from regard.layers.attention import Attention
from regard.layers.block import Block, decoding
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense, Gated
from regard.layers.heads import NextToken
from regard.layers.initial import glorot_
from regard.layers.norms import LayerNorm
from regard.layers.positions import Learned, NoPositions, Sinusoidal, sinusoids
from regard.layers.stack import Stack
from regard.models import _fairseq

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"num_layers": 4, "d_model": 128, "d_ff": 256, "num_heads": 4, "dropout": 0.2},
    "small": {"num_layers": 3, "d_model": 256, "d_ff": 1024, "num_heads": 4, "dropout": 0.1},
    "base": {"num_layers": 6, "d_model": 512, "d_ff": 2048, "num_heads": 8, "dropout": 0.1},
    "big": {"num_layers": 6, "d_model": 1024, "d_ff": 4096, "num_heads": 16, "dropout": 0.3},
}


def describe(
    *,
    vocab_size: int,
    target_vocab_size: int | None = None,
    num_layers: int = 6,
    decoder_layers: int | None = None,
    d_model: int = 512,
    d_ff: int = 2048,
    decoder_d_ff: int | None = None,
    num_heads: int = 8,
    decoder_heads: int | None = None,
    num_kv_heads: int | None = None,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
    activation_dropout: float = 0.0,
    activation: str = "relu",
    gated: bool = False,
    placement: Literal["post", "pre"] = "post",
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal",
    max_positions: int = 1024,
    scaled: bool = True,
    head_bias: bool = False,
    tied: Literal["no", "head", "all"] | None = None,
    pad: int | None = 0,
) -> Description:
    """An encoder of blocks with two sub-layers and a decoder of blocks with three.

    target_vocab_size: None for one vocabulary on both sides, and then all embeddings are one matrix (`tied`="all");
    otherwise the head is tied to the decoder's. decoder_layers, decoder_d_ff, decoder_heads: None for as in the encoder.
    scaled: embeddings times sqrt(d_model). The paper has dropout on sub-layers and embeddings alone, as here;
    attention_dropout and activation_dropout are its authors' code's, and so is a head without bias.
    """
    if positions not in ("sinusoidal", "learned", "none"):
        raise ValueError(f"positions must be 'sinusoidal', 'learned' or 'none', not {positions!r}")
    place = {"sinusoidal": Sinusoidal(), "learned": Learned(max_positions), "none": NoPositions()}[positions]
    attention = Attention(num_heads, num_kv_heads, dropout=attention_dropout)
    inner = (Gated if gated else Dense)(d_ff, activation, True, activation_dropout)
    encoder = Block(attention, inner, placement=placement, dropout=dropout)
    decoder = decoding(encoder, decoder_heads, decoder_d_ff)
    norm, target = LayerNorm() if placement == "pre" else None, target_vocab_size or vocab_size
    return Description(
        NextToken(target, head_bias),
        Stack(d_model, Tokens(vocab_size, place, scaled, dropout), (encoder,) * num_layers, norm),
        Stack(d_model, Tokens(target, place, scaled, dropout), (decoder,) * (decoder_layers or num_layers), norm),
        tied=tied or ("all" if target_vocab_size is None else "head"),
        pad=pad,
    )


initialise = glorot_


def _positions(description: Description) -> dict[str, Any]:
    its = description.encoder.embed.position
    name = {Sinusoidal: "sinusoidal", Learned: "learned"}.get(type(its), "none")
    return {"positions": name, "max_positions": its.limit or 1024}


arguments = inverse(describe, _positions)

LENGTH = 1024
"""Positions of the table of sinusoids that goes into a folder: as far as transformers can go; regard has no end."""


def weights(*, placement: str, d_model: int, **arguments: Any) -> Weights:
    """The tensors of MarianMTModel and PegasusForConditionalGeneration for these arguments of `describe`."""
    its, names = _fairseq.weights(**arguments), (f"model.{half}.embed_positions.weight" for half in ("encoder", "decoder"))
    tables = (Derived(name, lambda s: sinusoids(s[0], s[1]), (LENGTH, d_model), placement == "pre") for name in names)
    return replace(its, derived=(*its.derived, *tables))


def _read_marian(config: Mapping[str, Any]) -> dict[str, Any]:
    shared = config["share_encoder_decoder_embeddings"]
    tied = ("all" if shared else "head") if config["tie_word_embeddings"] else "no"
    return {"tied": tied, "target_vocab_size": config["vocab_size" if shared else "decoder_vocab_size"]}


def _write_marian(arguments: Mapping[str, Any]) -> dict[str, Any]:
    tied = {"share_encoder_decoder_embeddings": arguments["tied"] == "all", "tie_word_embeddings": arguments["tied"] != "no"}
    return _write(arguments) | tied | {"decoder_vocab_size": arguments["target_vocab_size"]}


def _write(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return _fairseq.write(arguments) | {"max_position_embeddings": LENGTH}


_BOTH = Format(
    "marian",
    "MarianMTModel",
    _fairseq.CONFIG,
    weights,
    fixed=_fairseq.FIXED | {"normalize_embedding": (False,), "static_position_embeddings": (True,)},
    harmless=_fairseq.HARMLESS,
    arguments={"gated": False, "positions": "sinusoidal", "num_kv_heads": None},
    peek=_fairseq.peek,
)
_TIES = {"share_encoder_decoder_embeddings": True, "tie_word_embeddings": True}
_MARIAN = replace(_BOTH, defaults=_TIES, read=_read_marian, write=_write_marian)
_PEGASUS = replace(
    _BOTH,
    model_type="pegasus",
    architecture="PegasusForConditionalGeneration",
    config=_fairseq.CONFIG | _fairseq.TIED,
    write=lambda arguments: _write(arguments) if arguments["tied"] == "all" else None,
)
FORMATS = (_fairseq.placed(_MARIAN, "post"), _fairseq.placed(_PEGASUS, "pre"))
