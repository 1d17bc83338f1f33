"""RoBERTa (Liu et al. 2019): BERT's encoder with positions numbered after the padding id, and other heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from regard.architecture import Description, inverse
from regard.checkpoints.formats import Format, Key, each
from regard.checkpoints.rules import Weights
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
    elif head == "class":
        last = replace(last, dropout_first=True)
    return replace(made, head=last, encoder=replace(made.encoder, embed=embed))


initialise = normal_


arguments = inverse(describe, bert.more)


def weights(*, head: bert.Head, tied: str, name: str = "roberta", **arguments: Any) -> Weights:
    """The tensors of the class of transformers that has this head and calls its body by this name."""
    prefix = "" if head == "vector" else f"{name}."
    pooler = f"{prefix}pooler.dense"
    if head == "masked":
        names = {"transform": "lm_head.dense", "norm": "lm_head.layer_norm"}
        return bert.weights_of(prefix, names, (pooler,), "lm_head.decoder", "lm_head.bias", tied == "head")
    last = "classifier.out_proj" if head == "class" else "classifier"
    return bert.weights_of(prefix, {"between": "classifier.dense", "project": last}, (pooler,))


def read(config: Mapping[str, Any]) -> dict[str, Any]:
    """Their table of positions has rows up to the padding id's, which stand before that of the first token."""
    return {"max_positions": config["max_position_embeddings"] - (config["pad_token_id"] or 0) - 1}


def write(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """What `read` reads."""
    return {"max_position_embeddings": arguments["max_positions"] + arguments["pad"] + 1}


FORM = Format(
    "roberta",
    "Roberta",
    bert.CONFIG | {"pad_token_id": Key("pad", 1)},
    weights,
    fixed=bert.FIXED,
    harmless=bert.HARMLESS,
    arguments={"pool": "mean"},
    read=read,
    write=write,
)
_XLM = replace(FORM, model_type="xlm-roberta", architecture="XLMRoberta")
_CAMEMBERT = replace(FORM, model_type="camembert", architecture="Camembert")
FORMATS = (*each(FORM, bert.HEADS), *each(_XLM, bert.HEADS), *each(_CAMEMBERT, bert.HEADS))
"""XLM-RoBERTa and CamemBERT are the same function under other names; they are read, and written as RoBERTa."""
