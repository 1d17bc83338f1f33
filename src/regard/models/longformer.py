"""Longformer (Beltagy et al. 2020): RoBERTa with attention in a window and a few global tokens, for long documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from regard.architecture import Description
from regard.checkpoints.formats import Format
from regard.checkpoints.rules import Rule, Weights, both
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


def arguments(description: Description) -> dict[str, Any] | None:
    """The arguments from which `describe` makes this description; None if there are none."""
    try:
        found = bert.read_off(description)
        its = [block.attention for block in description.encoder.blocks]
        usual = its[0].first == int(found["head"] == "class")
        found |= {"window": tuple(a.window for a in its), "global_tokens": None if usual else its[0].first}
        return found if describe(**found) == description else None
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


def weights(*, head: bert.Head, tied: str, **arguments: Any) -> Weights:
    """The tensors of the class of transformers that has this head."""
    prefix = "" if head == "vector" else "longformer."
    theirs, ours = f"{prefix}encoder.layer.#.attention.self", "encoder.blocks.#.attention.everywhere"
    rules = [*both(f"{theirs}.query_global", f"{ours}.q"), *both(theirs, f"{ours}.kv", "key_global", "value_global")]
    rules += bert.body_rules(prefix)
    left = bert.spare(prefix, f"{prefix}pooler.dense")
    if head == "masked":
        rules += bert.masked_rules(prefix, tied == "head", "lm_head.decoder", "lm_head.bias")
        rules += [*both("lm_head.dense", "head.transform"), *both("lm_head.layer_norm", "head.norm")]
        return Weights(tuple(rules), ignored=left if tied == "head" else left | {"lm_head.bias", "lm_head.decoder.bias"})
    rules.append(Rule(f"{prefix}embeddings.word_embeddings.weight", "encoder.embed.tokens.weight"))
    last = "classifier.out_proj" if head == "class" else "classifier"
    return Weights((*rules, *both("classifier.dense", "head.between"), *both(last, "head.project")), ignored=left)


CONFIG = {key: ours for key, ours in bert.CONFIG.items() if key != "classifier_dropout"} | {"attention_window": "window"}
DEFAULTS = {key: value for key, value in bert.DEFAULTS.items() if key != "classifier_dropout"}
DEFAULTS |= {"attention_window": 512, "pad_token_id": 1}


def _format(architecture: str, head: bert.Head) -> Format:
    def read(config: Mapping[str, Any]) -> dict[str, Any]:
        return bert.reads(head)(config) | {"max_positions": config["max_position_embeddings"] - config["pad_token_id"] - 1}

    def write(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        if arguments["global_tokens"] is not None or arguments["class_dropout"] not in (None, arguments["dropout"]):
            return None
        return bert.writes(arguments) | {"max_position_embeddings": arguments["max_positions"] + arguments["pad"] + 1}

    fixed = {"head": head, "pool": "mean"}
    harmless = bert.HARMLESS | {"onnx_export", "attention_mode", "ignore_attention_mask"}
    return Format("longformer", architecture, CONFIG, weights, DEFAULTS, bert.FIXED, harmless, fixed, read, write)


FORMATS = (
    _format("LongformerForMaskedLM", "masked"),
    _format("LongformerForSequenceClassification", "class"),
    _format("LongformerForTokenClassification", "tokens"),
    _format("LongformerModel", "vector"),
)
