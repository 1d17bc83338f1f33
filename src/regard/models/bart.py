"""BART (Lewis et al. 2020, "Denoising sequence-to-sequence pre-training for natural language generation, translation, and
comprehension") and mBART (Liu et al. 2020): the Transformer with learned positions and a norm on its embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import torch

from regard.architecture import Description
from regard.checkpoints.formats import Format
from regard.checkpoints.rules import Weights
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import NextToken
from regard.layers.initial import normal_
from regard.layers.masks import Causal
from regard.layers.norms import LayerNorm
from regard.layers.positions import Learned
from regard.layers.stack import Stack
from regard.models import transformer

OFFSET = 2
"""Rows of a position table before that of the first token: fairseq counts positions from its pad id 1 on."""
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"num_layers": 2, "d_model": 64, "d_ff": 128, "num_heads": 4},
    "base": {"num_layers": 6, "d_model": 768, "d_ff": 3072, "num_heads": 12},
    "large": {"num_layers": 12, "d_model": 1024, "d_ff": 4096, "num_heads": 16},
}
SIZES["mbart-large"] = SIZES["large"] | {"placement": "pre", "scaled": True, "activation": "relu"}


def describe(
    *,
    vocab_size: int,
    num_layers: int = 6,
    decoder_layers: int | None = None,
    d_model: int = 768,
    d_ff: int = 3072,
    decoder_d_ff: int | None = None,
    num_heads: int = 12,
    decoder_heads: int | None = None,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
    activation_dropout: float = 0.0,
    activation: str = "gelu",
    placement: Literal["post", "pre"] = "post",
    max_positions: int = 1024,
    scaled: bool = False,
    head_bias: bool = False,
    tied: Literal["all", "no"] = "all",
    pad: int | None = 1,
) -> Description:
    """placement: "post" is BART; "pre" with a last norm is mBART, whose embeddings are `scaled` by sqrt(d_model).
    decoder_layers, decoder_d_ff, decoder_heads: None for as in the encoder. head_bias: added to the logits."""
    embed = Tokens(vocab_size, Learned(max_positions, OFFSET), scaled, dropout, norm=LayerNorm())
    heads, inner = Attention(num_heads, dropout=attention_dropout), Dense(d_ff, activation, True, activation_dropout)
    encoder = Block(heads, inner, placement=placement, dropout=dropout)
    heads, inner = replace(heads, num_heads=decoder_heads or num_heads), replace(inner, d_ff=decoder_d_ff or d_ff)
    decoder = replace(encoder, attention=replace(heads, mask=Causal()), feedforward=inner, cross=replace(heads, cross=True))
    last = LayerNorm() if placement == "pre" else None
    sides = ((encoder, num_layers), (decoder, decoder_layers or num_layers))
    stacks = (Stack(d_model, embed, (block,) * count, last) for block, count in sides)
    return Description(NextToken(vocab_size, head_bias), *stacks, tied=tied, pad=pad)


@torch.no_grad()
def initialise(model: Any) -> None:
    """As in fairseq: normal with 0.02, biases zero, the vector of padding zero."""
    normal_(model, 0.02)
    for half in (model.encoder, model.decoder):
        if model.pad is not None:
            half.embed.tokens.weight[model.pad] = 0.0


def arguments(description: Description) -> dict[str, Any] | None:
    """The arguments from which `describe` makes this description; None if there are none."""
    try:
        first, last = description.encoder, description.decoder
        block, other = first.blocks[0], last.blocks[0]
        found = {"vocab_size": first.embed.vocab_size, "d_model": first.d_model, "scaled": first.embed.scaled}
        found |= {"num_layers": len(first.blocks), "decoder_layers": len(last.blocks), "placement": block.placement}
        found |= {"d_ff": block.feedforward.d_ff, "decoder_d_ff": other.feedforward.d_ff, "dropout": block.dropout}
        found |= {"num_heads": block.attention.num_heads, "decoder_heads": other.attention.num_heads}
        found |= {"attention_dropout": block.attention.dropout, "activation_dropout": block.feedforward.dropout}
        found |= {"activation": block.feedforward.activation, "max_positions": first.embed.position.limit}
        found |= {"head_bias": description.head.bias, "tied": description.tied, "pad": description.pad}
        return found if describe(**found) == description else None
    except (AttributeError, IndexError, TypeError):
        return None


def weights(*, vocab_size: int, tied: str, head_bias: bool, **arguments: Any) -> Weights:
    """The tensors of BartForConditionalGeneration and MBartForConditionalGeneration for these arguments of `describe`."""
    return transformer.rules_of(tied, head_bias, vocab_size)


def _read(config: Mapping[str, Any]) -> dict[str, Any]:
    return {"tied": "all" if config["tie_word_embeddings"] else "no"}


def _write(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"tie_word_embeddings": arguments["tied"] == "all", "is_encoder_decoder": True}


def _format(model_type: str, architecture: str, placement: str) -> Format:
    pre, fixed = placement == "pre", transformer.FIXED.keys() - {"normalize_embedding", "static_position_embeddings"}
    return Format(
        model_type,
        architecture,
        transformer.CONFIG | {"max_position_embeddings": "max_positions"},
        weights,
        transformer.DEFAULTS | {"max_position_embeddings": 1024},
        {key: transformer.FIXED[key] for key in fixed}
        | {"normalize_before": (pre,), "add_final_layer_norm": (pre,), "extra_pos_embeddings": (OFFSET,)}
        | {"normalize_embedding": (True,), "static_position_embeddings": (False,)},
        transformer.HARMLESS,
        {"placement": placement},
        _read,
        _write,
        transformer.peek,
    )


FORMATS = (
    _format("bart", "BartForConditionalGeneration", "post"),
    _format("mbart", "MBartForConditionalGeneration", "pre"),
)
