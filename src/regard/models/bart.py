"""BART (Lewis et al. 2020, "Denoising sequence-to-sequence pre-training for natural language generation, translation, and
comprehension") and mBART (Liu et al. 2020): the Transformer with learned positions and a norm on its embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch

from regard.architecture import Description, inverse
from regard.checkpoints.formats import Format, Key
from regard.layers.initial import normal_
from regard.layers.norms import LayerNorm
from regard.layers.positions import Learned
from regard.models import _fairseq, transformer

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
    made = transformer.describe(**locals())
    embed = replace(made.encoder.embed, position=Learned(max_positions, OFFSET), norm=LayerNorm())
    return replace(made, encoder=replace(made.encoder, embed=embed), decoder=replace(made.decoder, embed=embed))


@torch.no_grad()
def initialise(model: Any) -> None:
    """As in fairseq: normal with 0.02, biases zero, the vector of padding zero."""
    normal_(model, 0.02)
    for half in (model.encoder, model.decoder):
        if model.pad is not None:
            half.embed.tokens.weight[model.pad] = 0.0


arguments = inverse(describe)

_BART = Format(
    "bart",
    "BartForConditionalGeneration",
    _fairseq.CONFIG | _fairseq.TIED | {"max_position_embeddings": Key("max_positions", 1024)},
    _fairseq.weights,
    fixed=_fairseq.FIXED
    | {"normalize_embedding": (True,), "static_position_embeddings": (False,), "extra_pos_embeddings": (OFFSET,)},
    harmless=_fairseq.HARMLESS,
    write=_fairseq.write,
    peek=_fairseq.peek,
)
_MBART = replace(_BART, model_type="mbart", architecture="MBartForConditionalGeneration")
FORMATS = (_fairseq.placed(_BART, "post"), _fairseq.placed(_MBART, "pre"))
