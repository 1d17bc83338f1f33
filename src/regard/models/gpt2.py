"""GPT-2 (Radford et al. 2019, "Language models are unsupervised multitask learners"): causal, pre-norm, with learned
positions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal

from regard.architecture import Description, inverse
from regard.checkpoints.formats import ACTIVATION_NAMES, Format, Key, each, words
from regard.checkpoints.rules import Joined, Rule, Weights, table
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import Classify, NextToken, chosen
from regard.layers.initial import normal_
from regard.layers.masks import Causal
from regard.layers.norms import LayerNorm
from regard.layers.positions import Learned
from regard.layers.stack import Stack

SIZES: dict[str, dict[str, Any]] = {
    "nano": {"num_layers": 4, "d_model": 128, "num_heads": 4, "max_positions": 64, "dropout": 0.0},
    "small": {"num_layers": 12, "d_model": 768, "num_heads": 12},
    "medium": {"num_layers": 24, "d_model": 1024, "num_heads": 16},
    "large": {"num_layers": 36, "d_model": 1280, "num_heads": 20},
    "xl": {"num_layers": 48, "d_model": 1600, "num_heads": 25},
}


def describe(
    *,
    vocab_size: int,
    num_layers: int = 12,
    d_model: int = 768,
    num_heads: int = 12,
    d_ff: int | None = None,
    max_positions: int = 1024,
    dropout: float = 0.1,
    embedding_dropout: float | None = None,
    attention_dropout: float | None = None,
    activation: str = "gelu_tanh",
    eps: float = 1e-5,
    tied: bool = True,
    head: Literal["next", "class"] = "next",
    classes: int | None = None,
    pad: int | None = None,
) -> Description:
    """A decoder alone, its head tied to its embeddings. d_ff: None for 4 × d_model. embedding_dropout, attention_dropout:
    None for `dropout`. head: "class" reads the last token of a text. The size "nano" is nanoGPT's for a CPU, with biases.
    """
    attention = Attention(num_heads, mask=Causal(), dropout=dropout if attention_dropout is None else attention_dropout)
    norm = LayerNorm(eps)
    block = Block(attention, Dense(d_ff or 4 * d_model, activation), norm=norm, placement="pre", dropout=dropout)
    first = dropout if embedding_dropout is None else embedding_dropout
    stack = Stack(d_model, Tokens(vocab_size, Learned(max_positions), dropout=first), (block,) * num_layers, norm)
    top = chosen({"next": NextToken(vocab_size), "class": Classify(classes or 2, "last", bias=False)}, head)
    return Description(top, decoder=stack, tied="head" if tied and head == "next" else "no", pad=pad)


initialise = partial(normal_, residual=True)
"""Normal with 0.02; what is added to the residual stream is divided by sqrt(2 × num_layers), as published."""


def _more(description: Description) -> dict[str, Any]:
    return {"embedding_dropout": description.decoder.embed.dropout, "tied": description.tied == "head"}


arguments = inverse(describe, _more)

CONFIG: dict[str, str | Key] = {
    "vocab_size": "vocab_size",
    "n_layer": "num_layers",
    "n_embd": "d_model",
    "n_head": "num_heads",
    "n_inner": Key("d_ff", None),
    "n_positions": "max_positions",
    "resid_pdrop": Key("dropout", 0.1),
    "embd_pdrop": Key("embedding_dropout", 0.1),
    "attn_pdrop": Key("attention_dropout", 0.1),
    "activation_function": Key("activation", "gelu_new", {"gelu_new": "gelu_tanh"} | ACTIVATION_NAMES),
    "layer_norm_epsilon": Key("eps", 1e-5),
    "pad_token_id": Key("pad", None),
    "tie_word_embeddings": Key("tied", True),
}
FIXED: dict[str, tuple[Any, ...]] = {
    "add_cross_attention": (False,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
}
HARMLESS = words(
    "initializer_range n_ctx reorder_and_upcast_attn summary_activation summary_first_dropout summary_proj_to_labels"
    " summary_type summary_use_proj"
)
AROUND = {"embed.position.table": "wpe", "last_norm": "ln_f"}
BLOCK = {
    "attention_norm": "ln_1",
    "attention.qkv": "attn.c_attn",
    "attention.output": "attn.c_proj",
    "feedforward_norm": "ln_2",
    "feedforward.expand": "mlp.c_fc",
    "feedforward.contract": "mlp.c_proj",
}


def _stored(rule: Rule) -> Rule:
    """Products are stored [in out]; the names of the first release have no "transformer." before them."""
    (name,) = rule.names
    turned = ".c_" in name and name.endswith(".weight")
    return replace(rule, theirs=f"transformer.{name}", change=Joined(turned=turned), also=(name,))


def weights(*, head: str, tied: bool, num_layers: int, **arguments: Any) -> Weights:
    """The tensors of GPT2LMHeadModel and GPT2ForSequenceClassification for these arguments of `describe`."""
    also = ("wte.weight", "lm_head.weight") if tied and head == "next" else ("wte.weight",)
    rules = [Rule("transformer.wte.weight", "decoder.embed.tokens.weight", also=also)]
    rules += map(_stored, table("decoder.", "", AROUND) + table("decoder.blocks.#.", "h.#.", BLOCK))
    rules.append(Rule("lm_head.weight" if head == "next" else "score.weight", "head.project.weight"))
    masks = (f"h.{n}.attn.{name}" for n in range(num_layers) for name in ("bias", "masked_bias"))  # of old versions
    return Weights(tuple(rules), ignored=frozenset(f"{start}{mask}" for mask in masks for start in ("", "transformer.")))


_FORM = Format("gpt2", "GPT2", CONFIG, weights, fixed=FIXED, harmless=HARMLESS)
FORMATS = each(_FORM, {"LMHeadModel": "next", "ForSequenceClassification": "class"})
