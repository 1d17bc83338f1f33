"""BERT (Devlin et al. 2019): an encoder that sees both sides, pretrained by predicting masked tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from regard.architecture import Description
from regard.checkpoints.formats import ACTIVATION_NAMES, Choice, Format, read_classes, words, write_classes
from regard.checkpoints.rules import Rule, Twice, Weights, both
from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import Classify, Embedding, MaskedToken
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
    norm = LayerNorm(eps)
    embed = Tokens(vocab_size, Learned(max_positions), dropout=dropout, segments=segments, norm=norm)
    attention = Attention(num_heads=num_heads, dropout=attention_dropout)
    block = Block(attention, Dense(d_ff, activation), norm=norm, dropout=dropout)
    stack = Stack(d_model, embed, (block,) * num_layers)
    if head == "masked":
        return Description(MaskedToken(vocab_size, activation, norm), stack, tied=tied or "head", pad=pad)
    return Description(other_head(head, classes, pool, dropout if class_dropout is None else class_dropout), stack, pad=pad)


def other_head(head: Head, classes: int | None, pool: Literal["mean", "first"], dropout: float) -> Any:
    """The head of classes or vectors of that name; ValueError if it is unknown or `classes` is missing."""
    if head == "vector":
        return Embedding(pool)
    if head not in ("class", "tokens"):
        raise ValueError(f"head must be 'masked', 'class', 'tokens' or 'vector', not {head!r}")
    if classes is None:
        raise ValueError(f"a head of kind {head!r} needs the number of `classes`")
    return Classify(classes, "tokens", None, dropout) if head == "tokens" else Classify(classes, "first", "tanh", dropout)


initialise = normal_


def read_off(description: Description) -> dict[str, Any]:
    """The arguments of a description that `describe` may have made; AttributeError or IndexError if it cannot have."""
    stack, head = description.encoder, description.head
    embed, block, kinds = stack.embed, stack.blocks[0], {MaskedToken: "masked", Embedding: "vector"}
    found = {"vocab_size": embed.vocab_size, "max_positions": embed.position.limit, "segments": embed.segments}
    found |= {"num_layers": len(stack.blocks), "d_model": stack.d_model, "d_ff": block.feedforward.d_ff}
    found |= {"num_heads": block.attention.num_heads, "activation": block.feedforward.activation, "eps": block.norm.eps}
    found |= {"dropout": block.dropout, "attention_dropout": block.attention.dropout}
    found |= {"tied": description.tied, "pad": description.pad, "head": kinds.get(type(head), "class")}
    if isinstance(head, Classify):
        name = "tokens" if head.pool == "tokens" else "class"
        return found | {"head": name, "classes": head.classes, "class_dropout": head.dropout, "pool": "mean"}
    return found | {"classes": None, "class_dropout": None, "pool": getattr(head, "pool", "mean")}


def arguments(description: Description) -> dict[str, Any] | None:
    """The arguments from which `describe` makes this description; None if there are none."""
    try:
        found = read_off(description)
        return found if describe(**found) == description else None
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


CONFIG: dict[str, str | Choice] = {
    "vocab_size": "vocab_size",
    "num_hidden_layers": "num_layers",
    "hidden_size": "d_model",
    "intermediate_size": "d_ff",
    "num_attention_heads": "num_heads",
    "max_position_embeddings": "max_positions",
    "type_vocab_size": "segments",
    "hidden_act": Choice("activation", ACTIVATION_NAMES),
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "classifier_dropout": "class_dropout",
    "layer_norm_eps": "eps",
    "pad_token_id": "pad",
}
DEFAULTS: dict[str, Any] = {"type_vocab_size": 2, "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0}
DEFAULTS |= {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "classifier_dropout": None}
DEFAULTS |= {"tie_word_embeddings": True}
FIXED: dict[str, tuple[Any, ...]] = {"is_decoder": (False,), "add_cross_attention": (False,)}
FIXED |= {"position_embedding_type": ("absolute",), "tie_word_embeddings": (True, False)}
HARMLESS = words(
    "initializer_range directionality output_past pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers"
    " pooler_size_per_head pooler_type"
)


def _norm(theirs: str, ours: str) -> list[Rule]:
    """The published folders still have the names of the first release: gamma and beta."""
    names = (("weight", "gamma"), ("bias", "beta"))
    return [Rule(f"{theirs}.{new}", f"{ours}.{new}", also=(f"{theirs}.{old}",)) for new, old in names]


def body_rules(prefix: str) -> list[Rule]:
    """The tensors of embeddings and blocks, which RoBERTa's classes name alike."""
    embeds, theirs, ours = f"{prefix}embeddings", f"{prefix}encoder.layer.#", "encoder.blocks.#"
    return [
        Rule(f"{embeds}.position_embeddings.weight", "encoder.embed.position.table.weight"),
        Rule(f"{embeds}.token_type_embeddings.weight", "encoder.embed.segments.weight"),
        *_norm(f"{embeds}.LayerNorm", "encoder.embed.norm"),
        *both(f"{theirs}.attention.self", f"{ours}.attention.qkv", "query", "key", "value"),
        *both(f"{theirs}.attention.output.dense", f"{ours}.attention.output"),
        *_norm(f"{theirs}.attention.output.LayerNorm", f"{ours}.attention_norm"),
        *both(f"{theirs}.intermediate.dense", f"{ours}.feedforward.expand"),
        *both(f"{theirs}.output.dense", f"{ours}.feedforward.contract"),
        *_norm(f"{theirs}.output.LayerNorm", f"{ours}.feedforward_norm"),
    ]


def masked_rules(prefix: str, tied: bool, decoder: str, bias: str) -> list[Rule]:
    """The embedding and the last layer of a masked head, which are one tensor if tied."""
    last = Rule(bias, "head.project.bias", also=(f"{decoder}.bias",))
    if not tied:  # then the class has two biases, too, and adds the decoder's
        last = Rule((f"{decoder}.bias", bias), "head.project.bias", Twice(), also=(bias, f"{decoder}.bias"))
    alias = (f"{decoder}.weight",) if tied else ()
    table = Rule(f"{prefix}embeddings.word_embeddings.weight", "encoder.embed.tokens.weight", also=alias)
    return [table, Rule(f"{decoder}.weight", "head.project.weight"), last]


def spare(prefix: str, *parts: str) -> frozenset[str]:
    """Tensors that a class computes nothing from, or only in parts that regard leaves out: weight and bias of `parts`."""
    layers = {f"{part}.{kind}" for part in parts for kind in ("weight", "bias")}
    return frozenset({f"{prefix}embeddings.position_ids", f"{prefix}embeddings.token_type_ids", *layers})


def weights(*, head: Head, tied: str, **arguments: Any) -> Weights:
    """The tensors of the class of transformers that has this head."""
    prefix = "" if head == "vector" else "bert."
    rules, pooler, cls = body_rules(prefix), f"{prefix}pooler.dense", "cls.predictions"
    if head == "masked":
        rules += masked_rules(prefix, tied == "head", f"{cls}.decoder", f"{cls}.bias")
        rules += [*both(f"{cls}.transform.dense", "head.transform"), *_norm(f"{cls}.transform.LayerNorm", "head.norm")]
        left = spare(prefix, pooler, "cls.seq_relationship")
        return Weights(tuple(rules), ignored=left if tied == "head" else left | {f"{cls}.bias", f"{cls}.decoder.bias"})
    rules.append(Rule(f"{prefix}embeddings.word_embeddings.weight", "encoder.embed.tokens.weight"))
    rules += [*both("classifier", "head.project"), *both(pooler, "head.between")]
    return Weights(tuple(rules), ignored=spare(prefix, *([] if head == "class" else [pooler])))


def reads(head: Head) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """What a class with this head says of ties and of classes in its configuration."""

    def read(config: Mapping[str, Any]) -> dict[str, Any]:
        if head == "masked":
            return {"tied": "head" if config["tie_word_embeddings"] else "no"}
        return {} if head == "vector" else {"classes": read_classes(config)}

    return read


def writes(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that `reads` reads."""
    classes = {} if arguments["classes"] is None else write_classes(arguments["classes"])
    return classes | {"tie_word_embeddings": arguments["head"] != "masked" or arguments["tied"] == "head"}


def _format(architecture: str, head: Head, pool: str = "mean", write: Any = writes) -> Format:
    fixed = {"head": head, "pool": pool}
    return Format("bert", architecture, CONFIG, weights, DEFAULTS, FIXED, HARMLESS, fixed, reads(head), write)


FORMATS = (
    _format("BertForMaskedLM", "masked"),
    _format("BertForPreTraining", "masked", write=lambda arguments: None),
    _format("BertForSequenceClassification", "class"),
    _format("BertForTokenClassification", "tokens"),
    _format("BertModel", "vector"),
)
