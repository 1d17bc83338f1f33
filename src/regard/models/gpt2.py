"""GPT-2 (Radford et al. 2019, "Language models are unsupervised multitask learners"): causal, pre-norm, with learned
positions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal

from regard.architecture import Description
from regard.checkpoints.formats import ACTIVATION_NAMES, Choice, Format, read_classes, words, write_classes
from regard.checkpoints.rules import Joined, Rule, Weights
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import Classify, NextToken
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
    if head not in ("next", "class"):
        raise ValueError(f"head must be 'next' or 'class', not {head!r}")
    attention = Attention(num_heads, mask=Causal(), dropout=dropout if attention_dropout is None else attention_dropout)
    norm = LayerNorm(eps)
    block = Block(attention, Dense(d_ff or 4 * d_model, activation), norm=norm, placement="pre", dropout=dropout)
    first = dropout if embedding_dropout is None else embedding_dropout
    stack = Stack(d_model, Tokens(vocab_size, Learned(max_positions), dropout=first), (block,) * num_layers, norm)
    top = NextToken(vocab_size) if head == "next" else Classify(classes or 2, "last", bias=False)
    return Description(top, decoder=stack, tied="head" if tied and head == "next" else "no", pad=pad)


initialise = partial(normal_, residual=True)
"""Normal with 0.02; what is added to the residual stream is divided by sqrt(2 × num_layers), as published."""


def arguments(description: Description) -> dict[str, Any] | None:
    """The arguments from which `describe` makes this description; None if there are none."""
    try:
        its = description.decoder
        block = its.blocks[0]
        found = {
            "vocab_size": its.embed.vocab_size,
            "num_layers": len(its.blocks),
            "d_model": its.d_model,
            "num_heads": block.attention.num_heads,
            "d_ff": block.feedforward.d_ff,
            "max_positions": its.embed.position.limit,
            "dropout": block.dropout,
            "embedding_dropout": its.embed.dropout,
            "attention_dropout": block.attention.dropout,
            "activation": block.feedforward.activation,
            "eps": block.norm.eps,
            "tied": description.tied == "head",
            "head": "class" if hasattr(description.head, "classes") else "next",
            "classes": getattr(description.head, "classes", None),
            "pad": description.pad,
        }
        return found if describe(**found) == description else None
    except (AttributeError, IndexError, TypeError):
        return None


CONFIG: dict[str, str | Choice] = {
    "vocab_size": "vocab_size",
    "n_layer": "num_layers",
    "n_embd": "d_model",
    "n_head": "num_heads",
    "n_inner": "d_ff",
    "n_positions": "max_positions",
    "resid_pdrop": "dropout",
    "embd_pdrop": "embedding_dropout",
    "attn_pdrop": "attention_dropout",
    "activation_function": Choice("activation", {"gelu_new": "gelu_tanh"} | ACTIVATION_NAMES),
    "layer_norm_epsilon": "eps",
    "pad_token_id": "pad",
    "tie_word_embeddings": "tied",
}
DEFAULTS: dict[str, Any] = {
    "n_inner": None,
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5,
    "pad_token_id": None,
    "tie_word_embeddings": True,
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


def _pair(theirs: str, ours: str, turned: bool = False) -> list[Rule]:
    """Weight and bias; the first release's names have no "transformer." before them. turned: stored [in out]."""
    changes = {"weight": Joined(turned=turned), "bias": Joined()}
    names = ((f"{theirs}.{kind}", f"{ours}.{kind}", change) for kind, change in changes.items())
    return [Rule(f"transformer.{their}", our, change, also=(their,)) for their, our, change in names]


def weights(*, head: str, tied: bool, num_layers: int, **arguments: Any) -> Weights:
    """The tensors of GPT2LMHeadModel and GPT2ForSequenceClassification for these arguments of `describe`."""
    theirs, ours = "h.#", "decoder.blocks.#"
    table, positions = "decoder.embed.tokens.weight", "decoder.embed.position.table.weight"
    also = ("wte.weight", "lm_head.weight") if tied and head == "next" else ("wte.weight",)
    rules = [Rule("transformer.wte.weight", table, also=also)]
    rules += [Rule("transformer.wpe.weight", positions, also=("wpe.weight",))]
    rules += _pair(f"{theirs}.ln_1", f"{ours}.attention_norm") + _pair(f"{theirs}.ln_2", f"{ours}.feedforward_norm")
    rules += _pair(f"{theirs}.attn.c_attn", f"{ours}.attention.qkv", True)
    rules += _pair(f"{theirs}.attn.c_proj", f"{ours}.attention.output", True)
    rules += _pair(f"{theirs}.mlp.c_fc", f"{ours}.feedforward.expand", True)
    rules += _pair(f"{theirs}.mlp.c_proj", f"{ours}.feedforward.contract", True)
    rules += _pair("ln_f", "decoder.last_norm")
    rules.append(Rule("lm_head.weight" if head == "next" else "score.weight", "head.project.weight"))
    masks = (f"{start}h.{n}.attn.{name}" for start in ("", "transformer.") for n in range(num_layers) for name in _BUFFERS)
    return Weights(tuple(rules), ignored=frozenset(masks))


_BUFFERS = ("bias", "masked_bias")  # causal masks that old versions stored


def _format(architecture: str, head: str) -> Format:
    def read(config: Mapping[str, Any]) -> dict[str, Any]:
        return {"classes": read_classes(config)} if head == "class" else {}

    def write(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return write_classes(arguments["classes"]) if head == "class" else {}

    return Format("gpt2", architecture, CONFIG, weights, DEFAULTS, FIXED, HARMLESS, {"head": head}, read, write)


FORMATS = (_format("GPT2LMHeadModel", "next"), _format("GPT2ForSequenceClassification", "class"))
