"""T5 (Raffel et al. 2020, "Exploring the limits of transfer learning with a unified text-to-text transformer"): 1.0, and 1.1
with a gated feed-forward and a head of its own (Shazeer 2020)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.architecture import Description, inverse
from regard.checkpoints.formats import ACTIVATION_NAMES, Format, Key, words
from regard.checkpoints.rules import Rule, Weights, table
from regard.layers.attention import Attention, MultiHeadAttention, ScaledDot
from regard.layers.block import Block, decoding
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense, Gated
from regard.layers.heads import NextToken
from regard.layers.norms import RMSNorm
from regard.layers.positions import Buckets
from regard.layers.stack import Stack

_SHAPES = {
    "tiny": (2, 64, 128, 4, 16),
    "small": (6, 512, 2048, 8, 64),
    "base": (12, 768, 3072, 12, 64),
    "large": (24, 1024, 4096, 16, 64),
    "3b": (24, 1024, 16384, 32, 128),
    "11b": (24, 1024, 65536, 128, 128),
    "small-1.1": (8, 512, 1024, 6, 64),
    "base-1.1": (12, 768, 2048, 12, 64),
    "large-1.1": (24, 1024, 2816, 16, 64),
    "xl-1.1": (24, 2048, 5120, 32, 64),
    "xxl-1.1": (24, 4096, 10240, 64, 64),
}
_NAMES = ("num_layers", "d_model", "d_ff", "num_heads", "head_dim")
_LATER: dict[str, Any] = {"gated": True, "activation": "gelu_tanh", "tied": "embeddings"}
SIZES = {name: dict(zip(_NAMES, its)) | (_LATER if name.endswith("-1.1") else {}) for name, its in _SHAPES.items()}


def describe(
    *,
    vocab_size: int,
    num_layers: int = 6,
    decoder_layers: int | None = None,
    d_model: int = 512,
    d_ff: int = 2048,
    num_heads: int = 8,
    head_dim: int = 64,
    activation: str = "relu",
    gated: bool = False,
    buckets: int = 32,
    farthest: int = 128,
    eps: float = 1e-6,
    dropout: float = 0.1,
    scaled: bool | None = None,
    tied: Literal["all", "embeddings"] = "all",
    pad: int | None = 0,
) -> Description:
    """Pre-norm blocks without any bias; scores are not divided by sqrt(d) and know distances alone, in `buckets` up to
    `farthest` (each half has one table for all of its layers).

    tied: "all" as in 1.0; "embeddings" as in 1.1, where the head has its own matrix. scaled: hidden vectors divided by
    sqrt(d_model) before the head; None: where the head is tied. dropout: wherever the authors have it, on the weights of
    attention too.
    """
    heads = Attention(num_heads, head_dim=head_dim, bias=False, dropout=dropout, attend=ScaledDot(1.0))
    inner = (Gated if gated else Dense)(d_ff, activation, False, dropout)
    embed, norm = Tokens(vocab_size, dropout=dropout), RMSNorm(eps)
    encoder = Block(heads, inner, norm=norm, placement="pre", dropout=dropout)
    near, before = (Buckets(buckets, farthest, both_ways) for both_ways in (True, False))
    scaled = tied == "all" if scaled is None else scaled
    return Description(
        NextToken(vocab_size, scale=d_model**-0.5 if scaled else 1.0),
        Stack(d_model, embed, (encoder,) * num_layers, norm, near, dropout),
        Stack(d_model, embed, (decoding(encoder),) * (decoder_layers or num_layers), norm, before, dropout),
        tied=tied,
        pad=pad,
    )


@torch.no_grad()
def initialise(model: Any) -> None:
    """As in the authors' Mesh TensorFlow: normal with 1/sqrt of what a product sums over, queries with a further
    1/sqrt(head_dim) in place of the scores' divisor, embeddings with 1. A head of its own: with 1/sqrt(d_model)."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight.normal_(0.0, module.in_features**-0.5)
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            queries = module.q.weight if module.cross else module.qkv.weight[: module.num_heads * module.head_dim]
            queries.mul_(module.head_dim**-0.5)
    for half in (model.encoder, model.decoder):  # after the head, which may be the same matrix
        half.position.table.weight.normal_(0.0, half.d_model**-0.5)
        half.embed.tokens.weight.normal_(0.0, 1.0)


def _buckets(description: Description) -> dict[str, Any]:
    its = description.encoder.position
    return {"buckets": its.count, "farthest": its.farthest, "scaled": description.head.scale != 1.0}


arguments = inverse(describe, _buckets)

CONFIG: dict[str, str | Key] = {
    "vocab_size": "vocab_size",
    "d_model": "d_model",
    "d_kv": "head_dim",
    "d_ff": "d_ff",
    "num_layers": "num_layers",
    "num_decoder_layers": Key("decoder_layers", None),
    "num_heads": "num_heads",
    "relative_attention_num_buckets": Key("buckets", 32),
    "relative_attention_max_distance": Key("farthest", 128),
    "dropout_rate": Key("dropout", 0.1),
    "layer_norm_epsilon": Key("eps", 1e-6),
    "pad_token_id": Key("pad", 0),
    "tie_word_embeddings": Key("tied", True, {True: "all", False: "embeddings"}),
}
_PLAIN = {name: (ours, False) for name, ours in ACTIVATION_NAMES.items()}
_GATED = {f"gated-{name}": ("gelu_tanh" if name == "gelu" else ours, True) for name, ours in ACTIVATION_NAMES.items()}
FEEDFORWARD = _PLAIN | _GATED
"""feed_forward_proj -> (activation, gated); a gate's "gelu" is the tanh form."""
FIXED: dict[str, tuple[Any, ...]] = {
    "is_encoder_decoder": (True,),
    "feed_forward_proj": tuple(FEEDFORWARD),
    "dense_act_fn": tuple(ACTIVATION_NAMES),
    "is_gated_act": (True, False),
    "scale_decoder_outputs": (True, False),
}
HARMLESS = words("n_positions output_past initializer_factor classifier_dropout")
HALF = {"position.table": "block.0.layer.0.SelfAttention.relative_attention_bias", "last_norm": "final_layer_norm"}
BLOCK = {
    "attention.qkv": "0.SelfAttention q k v",
    "attention.output": "0.SelfAttention.o",
    "attention_norm": "0.layer_norm",
    "cross.q": "1.EncDecAttention.q",
    "cross.kv": "1.EncDecAttention k v",
    "cross.output": "1.EncDecAttention.o",
    "cross_norm": "1.layer_norm",
}
UNREAD = frozenset({"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"})


def weights(*, gated: bool, tied: str, **arguments: Any) -> Weights:
    """The tensors of T5ForConditionalGeneration for these arguments of `describe`."""
    dense = {"_norm": "layer_norm", ".contract": "DenseReluDense.wo"}
    dense[".expand"] = "DenseReluDense wi_0 wi_1" if gated else "DenseReluDense.wi"
    rules = []
    for half, last in (("encoder", 1), ("decoder", 2)):
        ours, theirs = f"{half}.blocks.#.", f"{half}.block.#.layer."
        rules += table(f"{half}.", f"{half}.", HALF) + table(ours, theirs, BLOCK)
        rules += table(f"{ours}feedforward", f"{theirs}{last}.", dense)
    same = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"] + ["lm_head.weight"] * (tied == "all")
    rules.append(Rule("shared.weight", "encoder.embed.tokens.weight", also=tuple(same)))
    rules.append(Rule("lm_head.weight", "head.project.weight"))
    return Weights(tuple(rules), ignored=UNREAD)


def _read(config: Mapping[str, Any]) -> dict[str, Any]:
    activation, gated = FEEDFORWARD[config["feed_forward_proj"]]
    return {
        "activation": ACTIVATION_NAMES[config["dense_act_fn"]] if "dense_act_fn" in config else activation,
        "gated": config.get("is_gated_act", gated),
        "scaled": config.get("scale_decoder_outputs", config["tie_word_embeddings"]),
    }


def _write(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    pair = arguments["activation"], arguments["gated"]
    names = [{"feed_forward_proj": name} for name, its in FEEDFORWARD.items() if its == pair]
    return names[0] | {"scale_decoder_outputs": arguments["scaled"], "is_encoder_decoder": True} if names else None


def _write_t5(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Older versions of this class scale wherever the head is tied."""
    return None if arguments["tied"] == "all" and not arguments["scaled"] else _write(arguments)


def _peek(shapes: Mapping[str, Sequence[int]], read: Callable[[str], Tensor]) -> dict[str, Any]:
    """The head is tied if its values are the embeddings', whatever the configuration says: so transformers has it."""
    shared = next((name for name in ("shared.weight", "encoder.embed_tokens.weight") if name in shapes), None)
    if shared is None or "lm_head.weight" not in shapes:
        return {"tied": "all"}
    return {"tied": "all" if torch.equal(read(shared), read("lm_head.weight")) else "embeddings"}


_RELU, _GELU = {"feed_forward_proj": "relu"}, {"feed_forward_proj": "gated-gelu"}
_T5 = Format("t5", "T5ForConditionalGeneration", CONFIG, weights, _RELU, FIXED, HARMLESS, {}, _read, _write_t5, _peek)
_MT5 = replace(
    _T5,
    model_type="mt5",
    architecture="MT5ForConditionalGeneration",
    defaults=_GELU,
    arguments={"scaled": False},
    read=lambda config: _read(config) | {"scaled": False},
    write=_write,
)
FORMATS = (_T5, _MT5)
