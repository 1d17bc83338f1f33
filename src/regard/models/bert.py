"""BERT (Devlin et al. 2019): an encoder that sees both sides, pretrained by predicting masked tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from regard.architecture import Description, inverse
from regard.checkpoints.formats import ACTIVATION_NAMES, HIDDEN, Format, Key, each, words
from regard.checkpoints.rules import Rule, Twice, Weights, table
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import Classify, Embedding, MaskedToken, chosen
from regard.layers.initial import normal_
from regard.layers.norms import LayerNorm
from regard.layers.positions import Learned
from regard.layers.stack import Stack

Head = Literal["masked", "class", "tokens", "vector"]

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"num_layers": 2, "d_model": 128, "d_ff": 512, "num_heads": 2},
    "mini": {"num_layers": 4, "d_model": 256, "d_ff": 1024, "num_heads": 4},
    "small": {"num_layers": 4, "d_model": 512, "d_ff": 2048, "num_heads": 8},
    "medium": {"num_layers": 8, "d_model": 512, "d_ff": 2048, "num_heads": 8},
    "base": {"num_layers": 12, "d_model": 768, "d_ff": 3072, "num_heads": 12},
    "large": {"num_layers": 24, "d_model": 1024, "d_ff": 4096, "num_heads": 16},
}
"""base and large are the paper's, the others those of Turc et al. 2019."""


def describe(
    *,
    vocab_size: int,
    num_layers: int = 12,
    d_model: int = 768,
    d_ff: int = 3072,
    num_heads: int = 12,
    max_positions: int = 512,
    segments: int = 2,
    activation: str = "gelu",
    dropout: float = 0.1,
    attention_dropout: float = 0.1,
    class_dropout: float | None = None,
    eps: float = 1e-12,
    head: Head = "masked",
    classes: int | None = None,
    pool: Literal["mean", "first"] = "mean",
    tied: Literal["no", "head"] | None = None,
    pad: int | None = 0,
) -> Description:
    """Post-norm blocks on embeddings of tokens, positions and segments.

    head: "masked" predicts the tokens at masked positions (the sentence-order half of the paper's pretraining is left out,
    as RoBERTa found it does no good); "class" a class of the text, "tokens" one of each token, out of `classes`; "vector"
    gives a vector of each text, its pool. tied: None for what the paper does, the masked head's matrix being the
    embedding. class_dropout: before the last layer of a head of classes; None for `dropout`.
    """
    norm, last = LayerNorm(eps), dropout if class_dropout is None else class_dropout
    embed = Tokens(vocab_size, Learned(max_positions), dropout=dropout, segments=segments, norm=norm)
    attention = Attention(num_heads=num_heads, dropout=attention_dropout)
    block = Block(attention, Dense(d_ff, activation), norm=norm, dropout=dropout)
    heads = {
        "masked": MaskedToken(vocab_size, activation, norm),
        "class": Classify(classes or 0, "first", "tanh", last),
        "tokens": Classify(classes or 0, "tokens", dropout=last),
        "vector": Embedding(pool),
    }
    top, ties = chosen(heads, head), (tied or "head") if head == "masked" else "no"
    return Description(top, Stack(d_model, embed, (block,) * num_layers), tied=ties, pad=pad)


initialise = normal_


def more(description: Description) -> dict[str, Any]:
    """Arguments of this family and its kin that are not read off as in others."""
    its = description.head
    return {
        "class_dropout": its.dropout if its.kind == "class" else None,
        "pool": its.pool if its.kind == "vector" else "mean",
        "tied": description.tied if its.kind == "masked" else "head",
    }


arguments = inverse(describe, more)

CONFIG: dict[str, str | Key] = HIDDEN | {
    "vocab_size": "vocab_size",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": Key("segments", 2),
    "hidden_act": Key("activation", "gelu", ACTIVATION_NAMES),
    "hidden_dropout_prob": Key("dropout", 0.1),
    "attention_probs_dropout_prob": Key("attention_dropout", 0.1),
    "classifier_dropout": Key("class_dropout", None),
    "layer_norm_eps": Key("eps", 1e-12),
    "pad_token_id": Key("pad", 0),
    "tie_word_embeddings": Key("tied", True, {True: "head", False: "no"}),
}
FIXED: dict[str, tuple[Any, ...]] = {"is_decoder": (False,), "add_cross_attention": (False,)}
FIXED |= {"position_embedding_type": ("absolute",)}
HARMLESS = words(
    "initializer_range directionality output_past pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers"
    " pooler_size_per_head pooler_type"
)
EMBED = {"position.table": "position_embeddings", "segments": "token_type_embeddings", "norm": "LayerNorm"}
BLOCK = {
    "attention.qkv": "attention.self query key value",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feedforward.expand": "intermediate.dense",
    "feedforward.contract": "output.dense",
    "feedforward_norm": "output.LayerNorm",
}


def weights_of(
    prefix: str, head: Mapping[str, str], spare: Sequence[str], decoder: str = "", bias: str = "", tied: bool = False
) -> Weights:
    """The tensors of a class of BERT's kin, whose body's names begin with `prefix`. head: its head's layers, ours -> theirs.
    decoder, bias: a masked head's last layer, whose weight is the embedding if `tied`, and the bias that stands beside it.
    spare: layers that the class computes nothing from, or only what regard leaves out."""
    embeds = f"{prefix}embeddings."
    rules = table("encoder.embed.", embeds, EMBED) + table("head.", "", head)
    rules += table("encoder.blocks.#.", f"{prefix}encoder.layer.#.", BLOCK)
    left = {f"{embeds}position_ids", f"{embeds}token_type_ids"}
    left |= {f"{layer}.{kind}" for layer in spare for kind in ("weight", "bias")}
    also: tuple[str, ...] = ()
    if decoder and tied:
        also = (f"{decoder}.weight",)
        rules.append(Rule(bias, "head.project.bias", also=(f"{decoder}.bias",)))
    elif decoder:  # then the class has two biases, too, and adds the decoder's
        two = (f"{decoder}.bias", bias)
        left |= set(two)
        rules.append(Rule(f"{decoder}.weight", "head.project.weight"))
        rules.append(Rule(two, "head.project.bias", Twice(), also=two[::-1]))
    rules.append(Rule(f"{embeds}word_embeddings.weight", "encoder.embed.tokens.weight", also=also))
    return Weights(tuple(rules), ignored=frozenset(left))


def weights(*, head: Head, tied: str, **arguments: Any) -> Weights:
    """The tensors of the class of transformers that has this head."""
    prefix, cls = "" if head == "vector" else "bert.", "cls.predictions"
    pooler = f"{prefix}pooler.dense"
    if head == "masked":
        names = {"transform": f"{cls}.transform.dense", "norm": f"{cls}.transform.LayerNorm"}
        return weights_of(prefix, names, (pooler, "cls.seq_relationship"), f"{cls}.decoder", f"{cls}.bias", tied == "head")
    return weights_of(prefix, {"between": pooler, "project": "classifier"}, () if head == "class" else (pooler,))


HEADS = {
    "ForMaskedLM": "masked",
    "ForSequenceClassification": "class",
    "ForTokenClassification": "tokens",
    "Model": "vector",
}
_FORM = Format("bert", "Bert", CONFIG, weights, fixed=FIXED, harmless=HARMLESS, arguments={"pool": "mean"})
FORMATS = each(_FORM, HEADS | {"ForPreTraining": "masked"})
