"""The Transformer (Vaswani et al. 2017, "Attention is all you need"), post-norm as published or pre-norm."""

from __future__ import annotations

from typing import Any, Literal

from regard.architecture import Description
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense, Gated
from regard.layers.heads import NextToken
from regard.layers.initial import glorot_
from regard.layers.masks import Causal
from regard.layers.norms import LayerNorm
from regard.layers.positions import Learned, NoPositions, Sinusoidal
from regard.layers.stack import Stack

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
    num_heads: int = 8,
    num_kv_heads: int | None = None,
    dropout: float = 0.1,
    attention_dropout: float = 0.0,
    activation_dropout: float = 0.0,
    activation: str = "relu",
    gated: bool = False,
    placement: Literal["post", "pre"] = "post",
    positions: Literal["sinusoidal", "learned", "none"] = "sinusoidal",
    max_positions: int = 1024,
    tied: Literal["no", "head", "all"] | None = None,
    pad: int | None = 0,
) -> Description:
    """An encoder of blocks with two sub-layers and a decoder of blocks with three.

    target_vocab_size: None for one vocabulary on both sides, and then all embeddings are one matrix (`tied`="all");
    otherwise the head is tied to the decoder's. The paper has dropout on sub-layers and embeddings alone, as here;
    attention_dropout and activation_dropout are its authors' code's.
    """
    if positions not in ("sinusoidal", "learned", "none"):
        raise ValueError(f"positions must be 'sinusoidal', 'learned' or 'none', not {positions!r}")
    place = {"sinusoidal": Sinusoidal(), "learned": Learned(max_positions), "none": NoPositions()}[positions]
    heads = {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "dropout": attention_dropout}
    inner = (Gated if gated else Dense)(d_ff, activation, True, activation_dropout)
    encoder = Block(Attention(**heads), inner, placement=placement, dropout=dropout)
    decoder = Block(
        Attention(**heads, mask=Causal()), inner, Attention(**heads, cross=True), placement=placement, dropout=dropout
    )
    norm = LayerNorm() if placement == "pre" else None
    target = vocab_size if target_vocab_size is None else target_vocab_size
    stacks = (
        Stack(d_model, Tokens(size, place, True, dropout), (block,) * count, norm)
        for size, block, count in ((vocab_size, encoder, num_layers), (target, decoder, decoder_layers or num_layers))
    )
    tied = tied or ("all" if target_vocab_size is None else "head")
    return Description(NextToken(target), *stacks, tied, pad)


initialise = glorot_
