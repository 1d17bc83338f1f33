"""The Transformer (Vaswani et al. 2017, "Attention is all you need"), post-norm as published or pre-norm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from regard.architecture import Description
from regard.checkpoints.formats import ACTIVATION_NAMES, Choice, Format, words
from regard.checkpoints.rules import Derived, Row, Rule, Weights, both
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense, Gated
from regard.layers.heads import NextToken
from regard.layers.initial import glorot_
from regard.layers.masks import Causal
from regard.layers.norms import LayerNorm
from regard.layers.positions import Learned, NoPositions, Sinusoidal, sinusoids
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
    heads = Attention(num_heads=num_heads, num_kv_heads=num_kv_heads, dropout=attention_dropout)
    inner = (Gated if gated else Dense)(d_ff, activation, True, activation_dropout)
    encoder = Block(heads, inner, placement=placement, dropout=dropout)
    heads, inner = replace(heads, num_heads=decoder_heads or num_heads), replace(inner, d_ff=decoder_d_ff or d_ff)
    decoder = replace(encoder, attention=replace(heads, mask=Causal()), feedforward=inner, cross=replace(heads, cross=True))
    norm = LayerNorm() if placement == "pre" else None
    target = target_vocab_size or vocab_size
    sides = ((vocab_size, encoder, num_layers), (target, decoder, decoder_layers or num_layers))
    stacks = (Stack(d_model, Tokens(size, place, scaled, dropout), (its,) * count, norm) for size, its, count in sides)
    tied = tied or ("all" if target_vocab_size is None else "head")
    return Description(NextToken(target, head_bias), *stacks, tied=tied, pad=pad)


initialise = glorot_


def arguments(description: Description) -> dict[str, Any] | None:
    """The arguments from which `describe` makes this description; None if there are none."""
    try:
        halves = description.encoder, description.decoder
        (first, last), embed = (half.blocks[0] for half in halves), halves[0].embed
        found = {
            "vocab_size": embed.vocab_size,
            "target_vocab_size": halves[1].embed.vocab_size,
            "num_layers": len(halves[0].blocks),
            "decoder_layers": len(halves[1].blocks),
            "d_model": halves[0].d_model,
            "d_ff": first.feedforward.d_ff,
            "decoder_d_ff": last.feedforward.d_ff,
            "num_heads": first.attention.num_heads,
            "decoder_heads": last.attention.num_heads,
            "num_kv_heads": first.attention.num_kv_heads,
            "dropout": first.dropout,
            "attention_dropout": first.attention.dropout,
            "activation_dropout": first.feedforward.dropout,
            "activation": first.feedforward.activation,
            "gated": isinstance(first.feedforward, Gated),
            "placement": first.placement,
            "positions": {Sinusoidal: "sinusoidal", Learned: "learned"}.get(type(embed.position), "none"),
            "max_positions": embed.position.limit or 1024,
            "scaled": embed.scaled,
            "head_bias": description.head.bias,
            "tied": description.tied,
            "pad": description.pad,
        }
        return found if describe(**found) == description else None
    except (AttributeError, IndexError, TypeError):
        return None


CONFIG: dict[str, str | Choice] = {
    "vocab_size": "vocab_size",
    "d_model": "d_model",
    "encoder_layers": "num_layers",
    "decoder_layers": "decoder_layers",
    "encoder_ffn_dim": "d_ff",
    "decoder_ffn_dim": "decoder_d_ff",
    "encoder_attention_heads": "num_heads",
    "decoder_attention_heads": "decoder_heads",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
    "scale_embedding": "scaled",
    "pad_token_id": "pad",
    "activation_function": Choice("activation", ACTIVATION_NAMES),
}
DEFAULTS = {
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "scale_embedding": False,
    "activation_function": "gelu",
    "tie_word_embeddings": True,
}
FIXED: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (True,),
    "tie_word_embeddings": (True, False),
    "layer_norm_eps": (1e-5,),
    "normalize_embedding": (False,),
    "static_position_embeddings": (True,),
    "add_bias_logits": (False,),
}
HARMLESS = words(
    "encoder_layerdrop decoder_layerdrop init_std num_hidden_layers classif_dropout classifier_dropout extra_pos_embeddings"
    " force_bos_token_to_be_generated decoder_vocab_size max_position_embeddings"
)
WRITTEN = 1024
"""Positions of the table of sinusoids that goes into a folder: as far as transformers can go; regard has no end."""


def rules_of(tied: str, head_bias: bool, size: int) -> Weights:
    """The tensors of such classes of transformers but for those of positions. size: of the target's vocabulary."""
    rules, derived = [], []
    embeds = [f"model.{half}.embed_tokens.weight" for half in ("encoder", "decoder")]
    for half in ("encoder", "decoder"):
        theirs, ours = f"model.{half}.layers.#", f"{half}.blocks.#"
        rules += both(f"{theirs}.self_attn", f"{ours}.attention.qkv", "q_proj", "k_proj", "v_proj")
        rules += both(f"{theirs}.self_attn.out_proj", f"{ours}.attention.output")
        rules += both(f"{theirs}.self_attn_layer_norm", f"{ours}.attention_norm")
        rules += both(f"{theirs}.encoder_attn.q_proj", f"{ours}.cross.q")
        rules += both(f"{theirs}.encoder_attn", f"{ours}.cross.kv", "k_proj", "v_proj")
        rules += both(f"{theirs}.encoder_attn.out_proj", f"{ours}.cross.output")
        rules += both(f"{theirs}.encoder_attn_layer_norm", f"{ours}.cross_norm")
        rules += both(f"{theirs}.fc1", f"{ours}.feedforward.expand")
        rules += both(f"{theirs}.fc2", f"{ours}.feedforward.contract")
        rules += both(f"{theirs}.final_layer_norm", f"{ours}.feedforward_norm")
        rules += both(f"model.{half}.layer_norm", f"{half}.last_norm")
        rules += both(f"model.{half}.layernorm_embedding", f"{half}.embed.norm")
        rules.append(Rule(f"model.{half}.embed_positions.weight", f"{half}.embed.position.table.weight"))
    if tied == "all":
        rules.append(Rule("model.shared.weight", "encoder.embed.tokens.weight", also=(*embeds, "lm_head.weight")))
    else:  # an old file may have one matrix for both sides, which "no" here means to part from now on
        shared = ("model.shared.weight",) if tied == "no" else ()
        rules.append(Rule(embeds[0], "encoder.embed.tokens.weight", also=shared))
        rules.append(Rule(embeds[1], "decoder.embed.tokens.weight", also=shared if shared else ("lm_head.weight",)))
        rules.append(Rule("lm_head.weight", "head.project.weight"))
    if head_bias:
        rules.append(Rule("final_logits_bias", "head.project.bias", Row()))
    else:
        derived.append(Derived("final_logits_bias", torch.zeros, (1, size)))
    return Weights(tuple(rules), tuple(derived), frozenset({"model.shared.weight"} if tied == "no" else ()))


def weights(*, placement: str, tied: str, head_bias: bool, d_model: int, **arguments: Any) -> Weights:
    """The tensors of MarianMTModel and PegasusForConditionalGeneration for these arguments of `describe`."""
    its = rules_of(tied, head_bias, arguments.get("target_vocab_size") or arguments["vocab_size"])
    tables = (
        Derived(name, lambda s: sinusoids(s[0], s[1]), (WRITTEN, d_model), placement == "pre")
        for name in (f"model.{half}.embed_positions.weight" for half in ("encoder", "decoder"))
    )
    return replace(its, derived=(*its.derived, *tables))


def _read_marian(config: Mapping[str, Any]) -> dict[str, Any]:
    shared = config["share_encoder_decoder_embeddings"]
    tied = ("all" if shared else "head") if config["tie_word_embeddings"] else "no"
    return {"tied": tied, "target_vocab_size": config["vocab_size" if shared else "decoder_vocab_size"]}


def _write_marian(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "share_encoder_decoder_embeddings": arguments["tied"] == "all",
        "tie_word_embeddings": arguments["tied"] != "no",
        "decoder_vocab_size": arguments["target_vocab_size"],
        "max_position_embeddings": WRITTEN,
        "is_encoder_decoder": True,
    }


def _write_pegasus(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    if arguments["tied"] != "all":
        return None
    return {"tie_word_embeddings": True, "max_position_embeddings": WRITTEN, "is_encoder_decoder": True}


def peek(shapes: Mapping[str, Sequence[int]], read: Callable[[str], Tensor]) -> dict[str, Any]:
    """Whether the stored bias of the logits says anything."""
    return {"head_bias": "final_logits_bias" in shapes and bool(read("final_logits_bias").any())}


_SAME: dict[str, Any] = {"gated": False, "positions": "sinusoidal", "num_kv_heads": None}
_MARIAN = Format(
    "marian",
    "MarianMTModel",
    CONFIG,
    weights,
    DEFAULTS | {"share_encoder_decoder_embeddings": True},
    FIXED | {"normalize_before": (False,), "add_final_layer_norm": (False,)},
    HARMLESS,
    _SAME | {"placement": "post"},
    _read_marian,
    _write_marian,
    peek,
)
_PEGASUS = Format(
    "pegasus",
    "PegasusForConditionalGeneration",
    CONFIG,
    weights,
    DEFAULTS,
    FIXED | {"normalize_before": (True,), "add_final_layer_norm": (True,)},
    HARMLESS,
    _SAME | {"placement": "pre"},
    lambda config: {"tied": "all" if config["tie_word_embeddings"] else "no"},
    _write_pegasus,
    peek,
)
FORMATS = (_MARIAN, _PEGASUS)
