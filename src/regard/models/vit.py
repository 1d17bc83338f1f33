"""The Vision Transformer (Dosovitskiy et al. 2021, "An image is worth 16x16 words")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from regard.architecture import Description
from regard.checkpoints.formats import ACTIVATION_NAMES, Choice, Format, read_classes, words, write_classes
from regard.checkpoints.rules import Rule, Weights, both
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.feedforward import Dense
from regard.layers.heads import Classify, Embedding
from regard.layers.initial import normal_
from regard.layers.norms import LayerNorm
from regard.layers.patches import Patches
from regard.layers.stack import Stack

_MNIST = {"image_size": 28, "channels": 1}
SIZES: dict[str, dict[str, Any]] = {
    "digits": {"image_size": 8, "channels": 1, "patch_size": 2, "num_layers": 2, "d_model": 64, "d_ff": 128, "num_heads": 4},
    "mnist": _MNIST | {"patch_size": 4, "num_layers": 4, "d_model": 64, "d_ff": 128, "num_heads": 4},
    "tiny": {"num_layers": 12, "d_model": 192, "d_ff": 768, "num_heads": 3},
    "small": {"num_layers": 12, "d_model": 384, "d_ff": 1536, "num_heads": 6},
    "base": {"num_layers": 12, "d_model": 768, "d_ff": 3072, "num_heads": 12},
    "large": {"num_layers": 24, "d_model": 1024, "d_ff": 4096, "num_heads": 16},
    "huge": {"patch_size": 14, "num_layers": 32, "d_model": 1280, "d_ff": 5120, "num_heads": 16},
}
"""base, large and huge are the paper's, tiny and small those of Touvron et al. 2021; mnist and digits fit such images."""

Size = int | tuple[int, int]


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def _size(pair: tuple[int, int]) -> Size:
    return pair[0] if pair[0] == pair[1] else pair


def describe(
    *,
    image_size: Size = 224,
    patch_size: Size = 16,
    channels: int = 3,
    num_layers: int = 12,
    d_model: int = 768,
    d_ff: int = 3072,
    num_heads: int = 12,
    activation: str = "gelu",
    dropout: float = 0.0,
    attention_dropout: float = 0.0,
    bias: bool = True,
    eps: float = 1e-12,
    head: Literal["class", "vector"] = "class",
    classes: int | None = 1000,
    pool: Literal["first", "mean"] = "first",
) -> Description:
    """Pre-norm blocks on the patches of an image and one vector for the whole of it, which the head reads.

    image_size, patch_size: pixels, (height, width) where they differ. bias: in the products that make queries, keys and
    values. head: "class" is one linear layer to `classes`, as in the paper's fine-tuning (its pretraining has a hidden
    layer with tanh); "vector" gives the whole image's vector, or the mean of all.
    """
    if head not in ("class", "vector"):
        raise ValueError(f"head must be 'class' or 'vector', not {head!r}")
    if head == "class" and classes is None:
        raise ValueError("a head of kind 'class' needs the number of `classes`")
    norm, embed = LayerNorm(eps), Patches(_pair(image_size), _pair(patch_size), channels, dropout)
    attention = Attention(num_heads=num_heads, bias=bias, output_bias=True, dropout=attention_dropout)
    block = Block(attention, Dense(d_ff, activation), norm=norm, placement="pre", dropout=dropout)
    last = Embedding(pool) if head == "vector" else Classify(classes or 0, pool)
    return Description(last, Stack(d_model, embed, (block,) * num_layers, norm))


initialise = normal_


def arguments(description: Description) -> dict[str, Any] | None:
    """The arguments from which `describe` makes this description; None if there are none."""
    try:
        stack, head = description.encoder, description.head
        embed, block = stack.embed, stack.blocks[0]
        found: dict[str, Any] = {"image_size": _size(embed.image), "patch_size": _size(embed.patch), "pool": head.pool}
        found |= {"channels": embed.channels, "num_layers": len(stack.blocks), "d_model": stack.d_model}
        found |= {"d_ff": block.feedforward.d_ff, "activation": block.feedforward.activation, "dropout": block.dropout}
        found |= {"num_heads": block.attention.num_heads, "attention_dropout": block.attention.dropout}
        found |= {"bias": block.attention.bias, "eps": block.norm.eps, "head": "vector", "classes": None}
        if isinstance(head, Classify):
            found |= {"head": "class", "classes": head.classes}
        return found if describe(**found) == description else None
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


CONFIG: dict[str, str | Choice] = {
    "image_size": "image_size",
    "patch_size": "patch_size",
    "num_channels": "channels",
    "num_hidden_layers": "num_layers",
    "hidden_size": "d_model",
    "intermediate_size": "d_ff",
    "num_attention_heads": "num_heads",
    "hidden_act": Choice("activation", ACTIVATION_NAMES),
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "qkv_bias": "bias",
    "layer_norm_eps": "eps",
}
DEFAULTS: dict[str, Any] = {"image_size": 224, "patch_size": 16, "num_channels": 3, "qkv_bias": True, "hidden_act": "gelu"}
DEFAULTS |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "layer_norm_eps": 1e-12}
HARMLESS = words("initializer_range encoder_stride pooler_output_size pooler_act tie_word_embeddings")


def weights(*, head: str, **arguments: Any) -> Weights:
    """The tensors of ViTForImageClassification and, without its prefix, of ViTModel."""
    prefix = "" if head == "vector" else "vit."
    embeds, theirs, ours = f"{prefix}embeddings", f"{prefix}encoder.layer.#", "encoder.blocks.#"
    rules = [
        Rule(f"{embeds}.cls_token", "encoder.embed.whole"),
        Rule(f"{embeds}.position_embeddings", "encoder.embed.table"),
        *both(f"{embeds}.patch_embeddings.projection", "encoder.embed.project"),
        *both(f"{theirs}.layernorm_before", f"{ours}.attention_norm"),
        *both(f"{theirs}.attention.attention", f"{ours}.attention.qkv", "query", "key", "value"),
        *both(f"{theirs}.attention.output.dense", f"{ours}.attention.output"),
        *both(f"{theirs}.layernorm_after", f"{ours}.feedforward_norm"),
        *both(f"{theirs}.intermediate.dense", f"{ours}.feedforward.expand"),
        *both(f"{theirs}.output.dense", f"{ours}.feedforward.contract"),
        *both(f"{prefix}layernorm", "encoder.last_norm"),
        *both("classifier", "head.project"),
    ]
    left = {f"{embeds}.mask_token", f"{prefix}pooler.dense.weight", f"{prefix}pooler.dense.bias"}
    return Weights(tuple(rules), ignored=frozenset(left))


def _format(architecture: str, head: str) -> Format:
    def read(config: Mapping[str, Any]) -> dict[str, Any]:
        return {"classes": read_classes(config)} if head == "class" else {}

    def write(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return write_classes(arguments["classes"]) if head == "class" else {}

    fixed = {"head": head, "pool": "first"}
    return Format("vit", architecture, CONFIG, weights, DEFAULTS, {}, HARMLESS, fixed, read, write)


FORMATS = (_format("ViTForImageClassification", "class"), _format("ViTModel", "vector"))
