"""LLaMA (Touvron et al. 2023, Grattafiori et al. 2024): causal, pre-norm with RMS norms, rotary positions, grouped queries,
gated feed-forward."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from regard.architecture import Description, from_json, inverse
from regard.checkpoints.formats import ACTIVATION_NAMES, HIDDEN, Format, Key, each, words
from regard.checkpoints.rules import Rule, Weights, table
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import FeedForward, Gated
from regard.layers.heads import Classify, NextToken, chosen
from regard.layers.initial import normal_
from regard.layers.masks import Causal, Mask
from regard.layers.norms import RMSNorm
from regard.layers.positions import Rotary, Scaling
from regard.layers.scalings import ByWavelength, read_rope, write_rope
from regard.layers.stack import Stack

_THIRD: dict[str, Any] = {"num_kv_heads": 8, "base": 5e5, "eps": 1e-5, "max_positions": 8192}
SIZES: dict[str, dict[str, Any]] = {
    "nano": {"num_layers": 4, "d_model": 128, "d_ff": 344, "num_heads": 4, "max_positions": 64},
    "7b": {"num_layers": 32, "d_model": 4096, "d_ff": 11008, "num_heads": 32},
    "13b": {"num_layers": 40, "d_model": 5120, "d_ff": 13824, "num_heads": 40},
    "33b": {"num_layers": 60, "d_model": 6656, "d_ff": 17920, "num_heads": 52},
    "65b": {"num_layers": 80, "d_model": 8192, "d_ff": 22016, "num_heads": 64},
    "2-70b": {"num_layers": 80, "d_model": 8192, "d_ff": 28672, "num_heads": 64, "num_kv_heads": 8, "eps": 1e-5},
    "3-8b": _THIRD | {"num_layers": 32, "d_model": 4096, "d_ff": 14336, "num_heads": 32},
    "3-70b": _THIRD | {"num_layers": 80, "d_model": 8192, "d_ff": 28672, "num_heads": 64},
    "3.2-1b": _THIRD
    | {"num_layers": 16, "d_model": 2048, "d_ff": 8192, "num_heads": 32, "tied": True}
    | {"max_positions": 131072, "scaling": ByWavelength(32.0, 8192)},
}


def describe(
    *,
    vocab_size: int,
    num_layers: int = 4,
    d_model: int = 128,
    d_ff: int = 344,
    num_heads: int = 4,
    num_kv_heads: int | None = None,
    head_dim: int | None = None,
    max_positions: int = 2048,
    base: float = 10000.0,
    scaling: Scaling | Mapping[str, Any] | None = None,
    activation: str = "silu",
    eps: float = 1e-6,
    attention_bias: bool = False,
    feedforward_bias: bool = False,
    dropout: float = 0.0,
    attention_dropout: float = 0.0,
    tied: bool = False,
    head: Literal["next", "class"] = "next",
    classes: int | None = None,
    pad: int | None = None,
    mask: Mask | None = None,
    feedforward: FeedForward | None = None,
) -> Description:
    """A decoder alone. max_positions: how many it is trained on; nothing stops there. base, scaling: of the rotary positions
    (scaling: a part of layers/scalings.py, or the JSON of one). dropout: on embeddings and what sub-layers give; the papers
    have none. head: "class" reads the last token of a text. mask, feedforward: parts in place of Causal and Gated, for kin.
    """
    kv_heads = None if num_kv_heads == num_heads else num_kv_heads
    width = None if head_dim is not None and head_dim * num_heads == d_model else head_dim
    attention = Attention(num_heads, kv_heads, width, mask or Causal(), bias=attention_bias, dropout=attention_dropout)
    inner = feedforward or Gated(d_ff, activation, feedforward_bias)
    block = Block(attention, inner, norm=RMSNorm(eps), placement="pre", dropout=dropout)
    rotary = Rotary(base, scaling=from_json(scaling), trained=max_positions)
    stack = Stack(d_model, Tokens(vocab_size, dropout=dropout), (block,) * num_layers, RMSNorm(eps), rotary)
    top = chosen({"next": NextToken(vocab_size), "class": Classify(classes or 2, "last", bias=False)}, head)
    return Description(top, decoder=stack, tied="head" if tied and head == "next" else "no", pad=pad)


initialise = normal_


def more(description: Description) -> dict[str, Any]:
    """Arguments of this family and its kin that are not read off as in others."""
    its, block = description.decoder, description.decoder.blocks[0]
    attention, rotary = block.attention, its.position
    return {
        "num_kv_heads": attention.num_kv_heads or attention.num_heads,
        "head_dim": attention.head_dim or its.d_model // attention.num_heads,
        "max_positions": rotary.trained,
        "base": rotary.base,
        "scaling": rotary.scaling,
        "attention_bias": attention.bias,
        "feedforward_bias": getattr(block.feedforward, "bias", False),
        "tied": description.tied == "head",
    }


arguments = inverse(describe, more)

CONFIG: dict[str, str | Key] = HIDDEN | {
    "vocab_size": "vocab_size",
    "num_key_value_heads": Key("num_kv_heads", None),
    "head_dim": Key("head_dim", None),
    "max_position_embeddings": Key("max_positions", 2048),
    "hidden_act": Key("activation", "silu", {"silu": "silu"} | ACTIVATION_NAMES),
    "rms_norm_eps": Key("eps", 1e-6),
    "hidden_dropout": Key("dropout", 0.0),
    "attention_dropout": Key("attention_dropout", 0.0),
    "tie_word_embeddings": Key("tied", False),
    "pad_token_id": Key("pad", None),
}
BIASES = {"attention_bias": Key("attention_bias", False), "mlp_bias": Key("feedforward_bias", False)}
FIXED: dict[str, tuple[Any, ...]] = {"partial_rotary_factor": (None, 1.0), "add_cross_attention": (False,)}
HARMLESS = words("initializer_range pretraining_tp rope_theta rope_scaling rope_parameters original_max_position_embeddings")
BLOCK = {
    "attention_norm": "input_layernorm",
    "attention.qkv": "self_attn q_proj k_proj v_proj",
    "attention.output": "self_attn.o_proj",
    "feedforward_norm": "post_attention_layernorm",
    "feedforward.expand": "mlp gate_proj up_proj",
    "feedforward.contract": "mlp.down_proj",
}


def weights(*, num_heads: int, num_kv_heads: int, head_dim: int, **its: Any) -> Weights:
    """The tensors of LlamaForCausalLM and LlamaForSequenceClassification for these arguments of `describe`."""
    rows = tuple(count * head_dim for count in (num_heads, num_kv_heads, num_kv_heads))
    rules = table("decoder.blocks.#.", "model.layers.#.", BLOCK, {"attention.qkv": rows})
    rules.append(Rule("model.norm.weight", "decoder.last_norm.weight"))
    also = ("lm_head.weight",) if its["tied"] and its["head"] == "next" else ()
    rules.append(Rule("model.embed_tokens.weight", "decoder.embed.tokens.weight", also=also))
    rules.append(Rule("lm_head.weight" if its["head"] == "next" else "score.weight", "head.project.weight"))
    rates = (f"model.layers.{n}.self_attn.rotary_emb.inv_freq" for n in range(its["num_layers"]))  # of old versions
    return Weights(tuple(rules), ignored=frozenset(rates))


def _write(its: Mapping[str, Any]) -> dict[str, Any] | None:
    if its["d_model"] % its["num_heads"]:  # the class refuses it, whatever head_dim says
        return None
    return write_rope(its["base"], its["scaling"]) or None


FORM = Format("llama", "Llama", CONFIG | BIASES, weights, {}, FIXED, HARMLESS, read=read_rope, write=_write)
HEADS = {"ForCausalLM": "next", "ForSequenceClassification": "class"}
FORMATS = each(FORM, HEADS)
