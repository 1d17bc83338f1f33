"""RoBERTa (Liu et al. 2019): BERT's encoder with positions numbered after the padding id, and other heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from regard.architecture import Description
from regard.checkpoints.formats import Format
from regard.checkpoints.rules import Rule, Weights, both
from regard.layers.heads import Classify
from regard.layers.initial import normal_
from regard.layers.positions import Learned
from regard.models import bert

SIZES: dict[str, dict[str, Any]] = bert.SIZES
"""base and large are the paper's, the others those of Turc et al. 2019."""


def describe(
    *,
    vocab_size: int,
    num_layers: int = 12,
    d_model: int = 768,
    d_ff: int = 3072,
    num_heads: int = 12,
    max_positions: int = 512,
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
    """Arguments as BERT's. The table of positions has pad + 1 rows before that of the first token; the masked head always
    has gelu; the head of text classes drops out before each of its two layers."""
    made = bert.describe(**locals())
    if not isinstance(pad, int):
        raise ValueError(f"positions are numbered after the padding id: pad must be a number, not {pad}")
    embed = replace(made.encoder.embed, position=Learned(max_positions, pad + 1))
    last = made.head
    if head == "masked":
        last = replace(last, activation="gelu")
    elif isinstance(last, Classify) and head == "class":
        last = replace(last, dropout_first=True)
    return replace(made, head=last, encoder=replace(made.encoder, embed=embed))


initialise = normal_


def arguments(description: Description) -> dict[str, Any] | None:
    """The arguments from which `describe` makes this description; None if there are none."""
    try:
        found = bert.read_off(description)
        return found if describe(**found) == description else None
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


def weights(*, head: bert.Head, tied: str, **arguments: Any) -> Weights:
    """The tensors of the class of transformers that has this head."""
    prefix = "" if head == "vector" else "roberta."
    rules, left = bert.body_rules(prefix), bert.spare(prefix, f"{prefix}pooler.dense")
    if head == "masked":
        rules += bert.masked_rules(prefix, tied == "head", "lm_head.decoder", "lm_head.bias")
        rules += [*both("lm_head.dense", "head.transform"), *both("lm_head.layer_norm", "head.norm")]
        return Weights(tuple(rules), ignored=left if tied == "head" else left | {"lm_head.bias", "lm_head.decoder.bias"})
    rules.append(Rule(f"{prefix}embeddings.word_embeddings.weight", "encoder.embed.tokens.weight"))
    last = "classifier.out_proj" if head == "class" else "classifier"
    return Weights((*rules, *both("classifier.dense", "head.between"), *both(last, "head.project")), ignored=left)


def _format(kind: str, architecture: str, head: bert.Head) -> Format:
    def read(config: Mapping[str, Any]) -> dict[str, Any]:
        before = (config["pad_token_id"] or 0) + 1
        return bert.reads(head)(config) | {"max_positions": config["max_position_embeddings"] - before}

    def write(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return bert.writes(arguments) | {"max_position_embeddings": arguments["max_positions"] + arguments["pad"] + 1}

    defaults, fixed = bert.DEFAULTS | {"pad_token_id": 1}, {"head": head, "pool": "mean"}
    return Format(kind, architecture, bert.CONFIG, weights, defaults, bert.FIXED, bert.HARMLESS, fixed, read, write)


_KINDS = (("roberta", "Roberta"), ("xlm-roberta", "XLMRoberta"), ("camembert", "Camembert"))
_HEADS: dict[str, bert.Head] = {
    "ForMaskedLM": "masked",
    "ForSequenceClassification": "class",
    "ForTokenClassification": "tokens",
    "Model": "vector",
}
FORMATS = tuple(_format(kind, prefix + name, head) for kind, prefix in _KINDS for name, head in _HEADS.items())
"""XLM-RoBERTa and CamemBERT are the same function under other names; they are read, and written as RoBERTa."""
