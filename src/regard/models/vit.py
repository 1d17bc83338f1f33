"""The Vision Transformer (Dosovitskiy et al. 2021, "An image is worth 16x16 words")."""

from __future__ import annotations

from typing import Any, Literal

from regard.architecture import Description, inverse
from regard.checkpoints.formats import ACTIVATION_NAMES, HIDDEN, Format, Key, each, words
from regard.checkpoints.rules import Rule, Weights, table
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.feedforward import Dense
from regard.layers.heads import Classify, Embedding, chosen
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
    norm, embed = LayerNorm(eps), Patches(_pair(image_size), _pair(patch_size), channels, dropout)
    attention = Attention(num_heads=num_heads, bias=bias, output_bias=True, dropout=attention_dropout)
    block = Block(attention, Dense(d_ff, activation), norm=norm, placement="pre", dropout=dropout)
    top = chosen({"class": Classify(classes or 0, pool), "vector": Embedding(pool)}, head)
    return Description(top, Stack(d_model, embed, (block,) * num_layers, norm))


initialise = normal_


def _more(description: Description) -> dict[str, Any]:
    its, bias = description.encoder.embed, description.encoder.blocks[0].attention.bias
    return {"image_size": _size(its.image), "patch_size": _size(its.patch), "channels": its.channels, "bias": bias}


arguments = inverse(describe, _more)

CONFIG: dict[str, str | Key] = HIDDEN | {
    "image_size": Key("image_size", 224),
    "patch_size": Key("patch_size", 16),
    "num_channels": Key("channels", 3),
    "hidden_act": Key("activation", "gelu", ACTIVATION_NAMES),
    "hidden_dropout_prob": Key("dropout", 0.0),
    "attention_probs_dropout_prob": Key("attention_dropout", 0.0),
    "qkv_bias": Key("bias", True),
    "layer_norm_eps": Key("eps", 1e-12),
}
HARMLESS = words("initializer_range encoder_stride pooler_output_size pooler_act tie_word_embeddings")
BLOCK = {
    "attention_norm": "layernorm_before",
    "attention.qkv": "attention.attention query key value",
    "attention.output": "attention.output.dense",
    "feedforward_norm": "layernorm_after",
    "feedforward.expand": "intermediate.dense",
    "feedforward.contract": "output.dense",
}


def weights(*, head: str, **arguments: Any) -> Weights:
    """The tensors of ViTForImageClassification and, without its prefix, of ViTModel."""
    prefix = "" if head == "vector" else "vit."
    rules = [
        Rule(f"{prefix}embeddings.cls_token", "encoder.embed.whole"),
        Rule(f"{prefix}embeddings.position_embeddings", "encoder.embed.table"),
        *table("encoder.embed.", f"{prefix}embeddings.", {"project": "patch_embeddings.projection"}),
        *table("encoder.blocks.#.", f"{prefix}encoder.layer.#.", BLOCK),
        *table("encoder.", prefix, {"last_norm": "layernorm"}),
        *table("head.", "", {"project": "classifier"}),
    ]
    left = ("embeddings.mask_token", "pooler.dense.weight", "pooler.dense.bias")
    return Weights(tuple(rules), ignored=frozenset(prefix + name for name in left))


_FORM = Format("vit", "ViT", CONFIG, weights, harmless=HARMLESS, arguments={"pool": "first"})
FORMATS = each(_FORM, {"ForImageClassification": "class", "Model": "vector"})
