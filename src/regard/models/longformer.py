"""Longformer (Beltagy et al. 2020): RoBERTa with attention in a window and a few global tokens, for long documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from regard.architecture import Description, inverse
from regard.checkpoints.formats import Key, each
from regard.checkpoints.rules import Weights, table
from regard.layers.global_tokens import WindowedAttention
from regard.layers.initial import normal_
from regard.models import bert, roberta

SIZES: dict[str, dict[str, Any]] = {
    "tiny": roberta.SIZES["tiny"] | {"window": 64},
    "small": roberta.SIZES["small"] | {"window": 128},
    "base": roberta.SIZES["base"],
    "large": roberta.SIZES["large"],
}
"""base and large are the paper's."""


def describe(
    *,
    vocab_size: int,
    num_layers: int = 12,
    d_model: int = 768,
    d_ff: int = 3072,
    num_heads: int = 12,
    window: int | Sequence[int] = 512,
    global_tokens: int | None = None,
    max_positions: int = 4096,
    segments: int = 1,
    activation: str = "gelu",
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    class_dropout: float | None = None,
    eps: float = 1e-5,
    head: bert.Head = "masked",
    classes: int | None = None,
    pool: Literal["mean", "first"] = "mean",
    tied: Literal["no", "head"] | None = None,
    pad: int = 1,
) -> Description:
    """Arguments as RoBERTa's. window: tokens that each sees, itself not counted, half of them on each side; one number for
    all layers or one for each. Global are the tokens whose Layout.mark is 1; global_tokens: how many of a document's first
    tokens are where a layout has no marks; None for 1 with the head "class" and 0 with others."""
    given = {key: value for key, value in locals().items() if key not in ("window", "global_tokens")}
    windows = (window,) * num_layers if isinstance(window, int) else tuple(window)
    if len(windows) != num_layers or any(w < 2 or w % 2 for w in windows):
        raise ValueError(f"window must be an even number, or one for each of {num_layers} layers, not {window}")
    made = roberta.describe(**given)
    first = int(head == "class") if global_tokens is None else global_tokens
    attentions = (WindowedAttention(num_heads, w, first, attention_dropout) for w in windows)
    blocks = tuple(replace(made.encoder.blocks[0], attention=its) for its in attentions)
    return replace(made, encoder=replace(made.encoder, blocks=blocks))


initialise = normal_


def _more(description: Description) -> dict[str, Any]:
    its, head = [block.attention for block in description.encoder.blocks], description.head
    usual = int(head.kind == "class" and head.pool != "tokens")
    first = None if its[0].first == usual else its[0].first
    return bert.more(description) | {"window": tuple(a.window for a in its), "global_tokens": first}


arguments = inverse(describe, _more)


def weights(*, head: bert.Head, **arguments: Any) -> Weights:
    """The tensors of the class of transformers that has this head."""
    its = roberta.weights(head=head, name="longformer", **arguments)
    theirs = f"{'' if head == 'vector' else 'longformer.'}encoder.layer.#.attention.self"
    everywhere = {"q": f"{theirs}.query_global", "kv": f"{theirs} key_global value_global"}
    return replace(its, rules=(*its.rules, *table("encoder.blocks.#.attention.everywhere.", "", everywhere)))


def _write(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    if arguments["global_tokens"] is not None or arguments["class_dropout"] not in (None, arguments["dropout"]):
        return None
    return roberta.write(arguments)


_CONFIG = {key: its for key, its in roberta.FORM.config.items() if key != "classifier_dropout"}
_FORM = replace(
    roberta.FORM,
    model_type="longformer",
    architecture="Longformer",
    config=_CONFIG | {"attention_window": Key("window", 512)},
    weights=weights,
    harmless=bert.HARMLESS | {"onnx_export", "attention_mode", "ignore_attention_mask"},
    write=_write,
)
FORMATS = each(_FORM, bert.HEADS)
