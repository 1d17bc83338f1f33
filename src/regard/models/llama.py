"""LLaMA (Touvron et al. 2023, Grattafiori et al. 2024): causal, pre-norm with RMS norms, rotary positions, grouped queries,
gated feed-forward."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from regard.architecture import Description, from_json
from regard.checkpoints.formats import ACTIVATION_NAMES as NAMES
from regard.checkpoints.formats import Choice, Format, read_classes, words, write_classes
from regard.checkpoints.rules import Joined, Rule, Weights, both
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import FeedForward, Gated
from regard.layers.heads import Classify, NextToken
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
    if head not in ("next", "class"):
        raise ValueError(f"head must be 'next' or 'class', not {head!r}")
    kv_heads = None if num_kv_heads == num_heads else num_kv_heads
    width = None if head_dim is not None and head_dim * num_heads == d_model else head_dim
    attention = Attention(num_heads, kv_heads, width, mask or Causal(), bias=attention_bias, dropout=attention_dropout)
    inner = feedforward or Gated(d_ff, activation, feedforward_bias)
    block = Block(attention, inner, norm=RMSNorm(eps), placement="pre", dropout=dropout)
    rotary = Rotary(base, scaling=from_json(scaling), trained=max_positions)
    stack = Stack(d_model, Tokens(vocab_size, dropout=dropout), (block,) * num_layers, RMSNorm(eps), rotary)
    top = NextToken(vocab_size) if head == "next" else Classify(classes or 2, "last", bias=False)
    return Description(top, decoder=stack, tied="head" if tied and head == "next" else "no", pad=pad)


initialise = normal_


def found(description: Description) -> dict[str, Any]:
    """What can be read off a description of this family and its kin, as arguments of `describe`; AttributeError, IndexError
    or TypeError where it is of another family."""
    its = description.decoder
    block, attention, top = its.blocks[0], its.blocks[0].attention, description.head
    inner = getattr(block.feedforward, "expert", block.feedforward)
    return {
        "vocab_size": its.embed.vocab_size,
        "num_layers": len(its.blocks),
        "d_model": its.d_model,
        "d_ff": inner.d_ff,
        "num_heads": attention.num_heads,
        "num_kv_heads": attention.num_kv_heads or attention.num_heads,
        "head_dim": attention.head_dim or its.d_model // attention.num_heads,
        "max_positions": its.position.trained,
        "base": its.position.base,
        "scaling": its.position.scaling,
        "activation": inner.activation,
        "eps": block.norm.eps,
        "attention_bias": attention.bias,
        "feedforward_bias": inner.bias,
        "dropout": block.dropout,
        "attention_dropout": attention.dropout,
        "tied": description.tied == "head",
        "head": "class" if hasattr(top, "classes") else "next",
        "classes": getattr(top, "classes", None),
        "pad": description.pad,
    }


def arguments(description: Description) -> dict[str, Any] | None:
    """The arguments from which `describe` makes this description; None if there are none."""
    try:
        its = found(description)
        return its if describe(**its) == description else None
    except (AttributeError, IndexError, TypeError):
        return None


CONFIG: dict[str, str | Choice] = {
    "vocab_size": "vocab_size",
    "num_hidden_layers": "num_layers",
    "hidden_size": "d_model",
    "intermediate_size": "d_ff",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "head_dim": "head_dim",
    "max_position_embeddings": "max_positions",
    "hidden_act": Choice("activation", {"silu": "silu"} | NAMES),
    "rms_norm_eps": "eps",
    "hidden_dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "tie_word_embeddings": "tied",
    "pad_token_id": "pad",
}
DEFAULTS: dict[str, Any] = {
    "num_key_value_heads": None,
    "head_dim": None,
    "max_position_embeddings": 2048,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
    "pad_token_id": None,
}
BIASES: dict[str, str | Choice] = {"attention_bias": "attention_bias", "mlp_bias": "feedforward_bias"}
FIXED: dict[str, tuple[Any, ...]] = {"partial_rotary_factor": (None, 1.0), "add_cross_attention": (False,)}
HARMLESS = words("initializer_range pretraining_tp rope_theta rope_scaling rope_parameters original_max_position_embeddings")


def weights(*, num_heads: int, num_kv_heads: int, head_dim: int, **its: Any) -> Weights:
    """The tensors of LlamaForCausalLM and LlamaForSequenceClassification for these arguments of `describe`."""
    theirs, ours = "model.layers.#", "decoder.blocks.#"
    rows = tuple(count * head_dim for count in (num_heads, num_kv_heads, num_kv_heads))
    also = ("lm_head.weight",) if its["tied"] and its["head"] == "next" else ()
    rules = [Rule("model.embed_tokens.weight", "decoder.embed.tokens.weight", also=also)]
    for kind in ("weight", "bias"):
        parts = tuple(f"{theirs}.self_attn.{part}_proj.{kind}" for part in "qkv")
        rules.append(Rule(parts, f"{ours}.attention.qkv.{kind}", Joined(rows)))
    rules += both(f"{theirs}.self_attn.o_proj", f"{ours}.attention.output")
    rules += both(f"{theirs}.mlp", f"{ours}.feedforward.expand", "gate_proj", "up_proj")
    rules += both(f"{theirs}.mlp.down_proj", f"{ours}.feedforward.contract")
    rules.append(Rule(f"{theirs}.input_layernorm.weight", f"{ours}.attention_norm.weight"))
    rules.append(Rule(f"{theirs}.post_attention_layernorm.weight", f"{ours}.feedforward_norm.weight"))
    rules.append(Rule("model.norm.weight", "decoder.last_norm.weight"))
    rules.append(Rule("lm_head.weight" if its["head"] == "next" else "score.weight", "head.project.weight"))
    rates = (f"{theirs}.self_attn.rotary_emb.inv_freq".replace("#", str(n)) for n in range(its["num_layers"]))
    return Weights(tuple(rules), ignored=frozenset(rates))


Config = Mapping[str, Any]
Extra = Callable[[Config], dict[str, Any]]


def formats(
    kind: str, name: str, config: Config, weights: Callable[..., Weights], defaults: Config, fixed: Config, extra: Extra
) -> tuple[Format, ...]:
    """The two classes of transformers of a family of this kin, `name`ForCausalLM first."""

    def form(architecture: str, head: str) -> Format:
        def read(config: Config) -> dict[str, Any]:
            return extra(config) | ({"classes": read_classes(config)} if head == "class" else {})

        def write(its: Config) -> dict[str, Any] | None:
            if its["d_model"] % its["num_heads"]:  # the class refuses it, whatever head_dim says
                return None
            rope = write_rope(its["base"], its["scaling"])
            return rope | (write_classes(its["classes"]) if head == "class" else {}) if rope else None

        return Format(kind, name + architecture, config, weights, defaults, fixed, HARMLESS, {"head": head}, read, write)

    return form("ForCausalLM", "next"), form("ForSequenceClassification", "class")


FORMATS = formats("llama", "Llama", CONFIG | BIASES, weights, DEFAULTS | dict.fromkeys(BIASES, False), FIXED, read_rope)
