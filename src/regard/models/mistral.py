"""Mistral (Jiang et al. 2023, "Mistral 7B"): LLaMA with a window of attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from regard.architecture import Description, inverse
from regard.checkpoints.formats import Key, each
from regard.layers.initial import normal_
from regard.layers.masks import Causal, Mask, Window
from regard.layers.positions import Scaling
from regard.models import llama

SIZES: dict[str, dict[str, Any]] = {
    "nano": llama.SIZES["nano"] | {"num_kv_heads": 2, "window": 32},
    "7b": {"num_layers": 32, "d_model": 4096, "d_ff": 14336, "num_heads": 32, "num_kv_heads": 8, "eps": 1e-5}
    | {"max_positions": 32768, "window": 4096},
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
    window: int | None = 4096,
    max_positions: int = 32768,
    base: float = 10000.0,
    scaling: Scaling | Mapping[str, Any] | None = None,
    activation: str = "silu",
    eps: float = 1e-6,
    dropout: float = 0.0,
    attention_dropout: float = 0.0,
    tied: bool = False,
    head: Literal["next", "class"] = "next",
    classes: int | None = None,
    pad: int | None = None,
) -> Description:
    """A decoder alone, as LLaMA. window: a token sees itself and the window-1 tokens before it; None: all before it, and
    then it is LLaMA, and written as such (the later releases). The rest as in LLaMA.
    """
    given = {name: value for name, value in locals().items() if name != "window"}
    return llama.describe(**given, mask=masked(window))


initialise = normal_


def masked(window: int | None) -> Mask:
    """What a token sees: itself and what stands before it, within the window if there is one."""
    return Causal() if window is None else Causal() & Window(window)


def more(description: Description) -> dict[str, Any]:
    """Arguments of this family and Mixtral's that are not read off as in others."""
    mask = description.decoder.blocks[0].attention.mask
    return llama.more(description) | {"window": None if mask == Causal() else mask.right.width}


arguments = inverse(describe, more)

CONFIG: dict[str, str | Key] = llama.CONFIG | {
    "num_key_value_heads": Key("num_kv_heads", 8),
    "max_position_embeddings": Key("max_positions", 131072),
    "sliding_window": Key("window", 4096),
}
FORMATS = each(replace(llama.FORM, model_type="mistral", architecture="Mistral", config=CONFIG), llama.HEADS)
