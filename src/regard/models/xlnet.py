"""XLNet (Yang et al. 2019): relative positions and segments, pretrained by predicting tokens in a random order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import torch

from regard.architecture import Description, inverse
from regard.checkpoints.formats import ACTIVATION_NAMES, Format, Key, each, words
from regard.checkpoints.rules import Derived, Headed, Rule, Weights, table
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import Classify, Embedding, NextToken, chosen
from regard.layers.initial import normal_
from regard.layers.masks import Causal, Everything
from regard.layers.norms import LayerNorm
from regard.layers.permuted import RelativeAttention, Streams

Head = Literal["next", "class", "tokens", "vector"]
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"num_layers": 2, "d_model": 128, "d_ff": 512, "num_heads": 2},
    "small": {"num_layers": 4, "d_model": 512, "d_ff": 2048, "num_heads": 8},
    "base": {"num_layers": 12, "d_model": 768, "d_ff": 3072, "num_heads": 12},
    "large": {"num_layers": 24, "d_model": 1024, "d_ff": 4096, "num_heads": 16},
}
"""base and large are the paper's."""


def describe(
    *,
    vocab_size: int,
    num_layers: int = 12,
    d_model: int = 768,
    d_ff: int = 3072,
    num_heads: int = 12,
    activation: str = "gelu",
    dropout: float = 0.1,
    class_dropout: float | None = None,
    eps: float = 1e-12,
    causal: bool = False,
    farthest: int | None = None,
    head: Head = "next",
    classes: int | None = None,
    pool: Literal["last", "first", "mean"] | None = None,
    tied: Literal["no", "head"] | None = None,
    pad: int = 5,
) -> Description:
    """Post-norm blocks with relative attention, and no limit of length.

    head: "next" is a decoder that predicts in the order of Layout.mark, or left to right without marks (`StreamDecoder`
    says what marks mean; Model reads a whole text with both sides in sight where all marks are 0); "class" a class of the
    text from its last token, "tokens" one of each token, "vector" a vector of the text are encoders. causal: tokens see
    nothing after them, as in Transformer-XL. farthest: greatest distance that is told from others. pool: None for "last",
    of vectors "mean". class_dropout: before the last layer of a head of classes; None for `dropout`.
    """
    attention = RelativeAttention(num_heads, Causal() if causal else Everything(), dropout)
    block = Block(attention, Dense(d_ff, activation, dropout=dropout), norm=LayerNorm(eps), dropout=dropout)  # type: ignore[arg-type]
    stack = Streams(d_model, Tokens(vocab_size, dropout=dropout), (block,) * num_layers, farthest, dropout)
    heads = {
        "next": NextToken(vocab_size, bias=True),
        "class": Classify(classes or 0, pool or "last", "tanh", dropout if class_dropout is None else class_dropout),
        "tokens": Classify(classes or 0, "tokens"),
        "vector": Embedding(pool or "mean"),
    }
    top = chosen(heads, head)
    if head == "next":
        return Description(top, decoder=stack, tied=tied or "head", pad=pad)
    return Description(top, stack, pad=pad)


initialise = normal_


def _more(description: Description) -> dict[str, Any]:
    stack, head = description.decoder or description.encoder, description.head
    return {
        "causal": stack.blocks[0].attention.mask == Causal(),
        "farthest": stack.farthest,
        "class_dropout": head.dropout if head.kind == "class" and head.pool != "tokens" else None,
        "pool": None if head.kind == "next" or head.pool == "tokens" else head.pool,
        "tied": description.tied if head.kind == "next" else "head",
    }


arguments = inverse(describe, _more)

CONFIG: dict[str, str | Key] = {
    "vocab_size": Key("vocab_size", 32000),
    "n_layer": Key("num_layers", 24),
    "d_model": Key("d_model", 1024),
    "d_inner": Key("d_ff", 4096),
    "n_head": Key("num_heads", 16),
    "ff_activation": Key("activation", "gelu", ACTIVATION_NAMES),
    "dropout": Key("dropout", 0.1),
    "layer_norm_eps": Key("eps", 1e-12),
    "attn_type": Key("causal", "bi", {"bi": False, "uni": True}),
    "pad_token_id": Key("pad", 5),
    "tie_word_embeddings": Key("tied", True, {True: "head", False: "no"}),
}
SUMMARY = {
    "summary_type": Key("pool", "last", {"last": "last", "first": "first"}),
    "summary_last_dropout": Key("class_dropout", 0.1),
}
FIXED: dict[str, tuple[Any, ...]] = {"same_length": (False,), "bi_data": (False,), "untie_r": (True,)}
FIXED_SUMMARY: dict[str, tuple[Any, ...]] = {"summary_use_proj": (True,), "summary_activation": ("tanh",)}
HARMLESS = words("mem_len reuse_len use_mems_eval use_mems_train initializer_range start_n_top end_n_top n_token d_head")
HARMLESS |= words("summary_type summary_use_proj summary_activation summary_last_dropout init init_range init_std")
PRODUCTS = {"q": "q", "kv": "kv", "place": "r", "output": "o"}
DRAWN = {"content_shift": "r_w_bias", "place_shift": "r_r_bias", "segment_shift": "r_s_bias", "segments": "seg_embed"}
BLOCK = {
    "attention_norm": "rel_attn.layer_norm",
    "feedforward.expand": "ff.layer_1",
    "feedforward.contract": "ff.layer_2",
    "feedforward_norm": "ff.layer_norm",
}


def weights(*, head: Head, d_model: int, num_heads: int, tied: str, **arguments: Any) -> Weights:
    """The tensors of the class of transformers that has this head."""
    prefix, half = "" if head == "vector" else "transformer.", "decoder" if head == "next" else "encoder"
    theirs, ours, asked = f"{prefix}layer.#.", f"{half}.blocks.#.", f"{prefix}mask_emb"
    rules = table(ours, theirs, BLOCK)
    for mine, names in PRODUCTS.items():
        change = Headed(num_heads, turned=mine != "output")
        rules.append(Rule(tuple(f"{theirs}rel_attn.{name}" for name in names), f"{ours}attention.{mine}.weight", change))
    rules += [Rule(f"{theirs}rel_attn.{name}", f"{ours}attention.{mine}") for mine, name in DRAWN.items()]
    alias = ("lm_loss.weight",) if head == "next" and tied == "head" else ()
    rules.append(Rule(f"{prefix}word_embedding.weight", f"{half}.embed.tokens.weight", also=alias))
    if head == "next":
        return Weights((*rules, Rule(asked, "decoder.asked"), *table("head.", "", {"project": "lm_loss"})))
    last = {"between": "sequence_summary.summary", "project": "classifier" if head == "tokens" else "logits_proj"}
    rules += table("head.", "", last)
    return Weights(tuple(rules), (Derived(asked, torch.zeros, (1, 1, d_model)),), frozenset({asked}))


def _read(config: Mapping[str, Any]) -> dict[str, Any]:
    if config.get("d_head") not in (None, config["d_model"] // config["n_head"]):
        raise ValueError(f"d_head is {config['d_head']}, must be d_model / n_head")
    return {"farthest": config["clamp_len"] if config["clamp_len"] > 0 else None}


def _write(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"clamp_len": arguments["farthest"] or -1, "d_head": arguments["d_model"] // arguments["num_heads"]}


_FORM = Format("xlnet", "XLNet", CONFIG, weights, {"clamp_len": -1}, FIXED, HARMLESS, read=_read, write=_write)
_OF_TEXTS = replace(_FORM, config=CONFIG | SUMMARY, fixed=FIXED | FIXED_SUMMARY)
FORMATS = (
    *each(_FORM, {"LMHeadModel": "next", "ForTokenClassification": "tokens"}),
    *each(_OF_TEXTS, {"ForSequenceClassification": "class"}),
    *each(replace(_FORM, arguments={"pool": "mean"}), {"Model": "vector"}),
)
