"""XLNet (Yang et al. 2019): relative positions and segments, pretrained by predicting tokens in a random order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from regard.architecture import Description
from regard.checkpoints.formats import ACTIVATION_NAMES, Choice, Format, read_classes, words, write_classes
from regard.checkpoints.rules import Derived, Rule, Weights, both
from regard.errors import UserError
from regard.layers.block import Block
from regard.layers.embeddings import Tokens
from regard.layers.feedforward import Dense
from regard.layers.heads import Classify, Embedding, NextToken
from regard.layers.initial import normal_
from regard.layers.masks import Causal, Everything
from regard.layers.norms import LayerNorm
from regard.layers.permuted import RelativeAttention, Streams

Head = Literal["next", "class", "tokens", "vector"]

SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"num_layers": 2, "d_model": 128, "d_ff": 512, "num_heads": 2},
    "small": {"num_layers": 4, "d_model": 512, "d_ff": 2048, "num_heads": 8},
    "base": {"num_layers": 12, "d_model": 768, "d_ff": 3072, "num_heads": 12},
    "large": {"num_layers": 24, "d_model": 1024, "d_ff": 4096, "num_heads": 16},
}
"""base and large are the paper's."""


def describe(
    *,
    vocab_size: int,
    num_layers: int = 12,
    d_model: int = 768,
    d_ff: int = 3072,
    num_heads: int = 12,
    activation: str = "gelu",
    dropout: float = 0.1,
    class_dropout: float | None = None,
    eps: float = 1e-12,
    causal: bool = False,
    farthest: int | None = None,
    head: Head = "next",
    classes: int | None = None,
    pool: Literal["last", "first", "mean"] | None = None,
    tied: Literal["no", "head"] | None = None,
    pad: int = 5,
) -> Description:
    """Post-norm blocks with relative attention, and no limit of length.

    head: "next" is a decoder that predicts in the order of Layout.mark, or left to right without marks (`StreamDecoder`
    says what marks mean; Model reads a whole text with both sides in sight where all marks are 0); "class" a class of the
    text from its last token, "tokens" one of each token, "vector" a vector of the text are encoders. causal: tokens see
    nothing after them, as in Transformer-XL. farthest: greatest distance that is told from others. pool: None for "last",
    of vectors "mean". class_dropout: before the last layer of a head of classes; None for `dropout`.
    """
    attention = RelativeAttention(num_heads, Causal() if causal else Everything(), dropout)
    block = Block(attention, Dense(d_ff, activation, dropout=dropout), norm=LayerNorm(eps), dropout=dropout)  # type: ignore[arg-type]
    stack = Streams(d_model, Tokens(vocab_size, dropout=dropout), (block,) * num_layers, farthest, dropout)
    if head == "next":
        return Description(NextToken(vocab_size, bias=True), decoder=stack, tied=tied or "head", pad=pad)
    if head == "vector":
        return Description(Embedding(pool or "mean"), stack, pad=pad)
    if head not in ("class", "tokens") or classes is None:
        raise ValueError(f"head must be 'next', 'vector', or 'class' or 'tokens' with `classes`, not {head!r}")
    last = dropout if class_dropout is None else class_dropout
    if head == "tokens":
        return Description(Classify(classes, "tokens"), stack, pad=pad)
    return Description(Classify(classes, pool or "last", "tanh", last), stack, pad=pad)


initialise = normal_


def arguments(description: Description) -> dict[str, Any] | None:
    """The arguments from which `describe` makes this description; None if there are none."""
    try:
        stack, head = description.decoder or description.encoder, description.head
        block, kind = stack.blocks[0], {NextToken: "next", Embedding: "vector"}.get(type(head), "class")
        kind = "tokens" if kind == "class" and head.pool == "tokens" else kind
        found = {
            "vocab_size": stack.embed.vocab_size,
            "num_layers": len(stack.blocks),
            "d_model": stack.d_model,
            "d_ff": block.feedforward.d_ff,
            "num_heads": block.attention.num_heads,
            "activation": block.feedforward.activation,
            "dropout": block.dropout,
            "class_dropout": head.dropout if kind == "class" else None,
            "eps": block.norm.eps,
            "causal": block.attention.mask == Causal(),
            "farthest": stack.farthest,
            "head": kind,
            "classes": getattr(head, "classes", None),
            "pool": head.pool if kind in ("class", "vector") else None,
            "tied": description.tied if kind == "next" else None,
            "pad": description.pad,
        }
        return found if describe(**found) == description else None
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


CONFIG: dict[str, str | Choice] = {
    "vocab_size": "vocab_size",
    "n_layer": "num_layers",
    "d_model": "d_model",
    "d_inner": "d_ff",
    "n_head": "num_heads",
    "ff_activation": Choice("activation", ACTIVATION_NAMES),
    "dropout": "dropout",
    "layer_norm_eps": "eps",
    "attn_type": Choice("causal", {"bi": False, "uni": True}),
    "pad_token_id": "pad",
}
DEFAULTS = {"vocab_size": 32000, "d_model": 1024, "n_layer": 24, "n_head": 16, "d_inner": 4096, "ff_activation": "gelu"}
DEFAULTS |= {"attn_type": "bi", "layer_norm_eps": 1e-12, "dropout": 0.1, "clamp_len": -1, "pad_token_id": 5}
DEFAULTS |= {"tie_word_embeddings": True, "summary_type": "last", "summary_last_dropout": 0.1}
FIXED: dict[str, tuple[Any, ...]] = {"same_length": (False,), "bi_data": (False,), "untie_r": (True,)}
FIXED |= {"tie_word_embeddings": (True, False)}
OF_CLASSES: dict[str, tuple[Any, ...]] = {"summary_use_proj": (True,), "summary_activation": ("tanh",)}
OF_CLASSES |= {"summary_type": ("last", "first")}
HARMLESS = words("mem_len reuse_len use_mems_eval use_mems_train initializer_range start_n_top end_n_top n_token d_head")
HARMLESS |= words("summary_type summary_use_proj summary_activation summary_last_dropout init init_range init_std")


@dataclass(frozen=True)
class _Heads:
    """Theirs are [D H d], of which ours are [H·d D], or [D H·d] if not `turned`, one after another."""

    heads: int
    turned: bool = True

    def take(self, theirs: Sequence[Tensor]) -> Tensor:
        return torch.cat([t.flatten(1).T if self.turned else t.flatten(1) for t in theirs])

    def give(self, ours: Tensor, count: int) -> Sequence[Tensor]:
        return [(t.T if self.turned else t).unflatten(1, (self.heads, -1)) for t in ours.chunk(count)]


def weights(*, head: Head, d_model: int, num_heads: int, tied: str | None, **arguments: Any) -> Weights:
    """The tensors of the class of transformers that has this head."""
    prefix, half = "" if head == "vector" else "transformer.", "decoder" if head == "next" else "encoder"
    theirs, ours = f"{prefix}layer.#.rel_attn", f"{half}.blocks.#.attention"
    names = {"r_w_bias": "content_shift", "r_r_bias": "place_shift", "r_s_bias": "segment_shift", "seg_embed": "segments"}
    alias = ("lm_loss.weight",) if tied == "head" else ()
    rules = [
        Rule(f"{prefix}word_embedding.weight", f"{half}.embed.tokens.weight", also=alias),
        Rule(f"{theirs}.q", f"{ours}.q.weight", _Heads(num_heads)),
        Rule((f"{theirs}.k", f"{theirs}.v"), f"{ours}.kv.weight", _Heads(num_heads)),
        Rule(f"{theirs}.r", f"{ours}.place.weight", _Heads(num_heads)),
        Rule(f"{theirs}.o", f"{ours}.output.weight", _Heads(num_heads, turned=False)),
        *(Rule(f"{theirs}.{name}", f"{ours}.{own}") for name, own in names.items()),
        *both(f"{theirs}.layer_norm", f"{ours}_norm"),
        *both(f"{prefix}layer.#.ff.layer_1", f"{half}.blocks.#.feedforward.expand"),
        *both(f"{prefix}layer.#.ff.layer_2", f"{half}.blocks.#.feedforward.contract"),
        *both(f"{prefix}layer.#.ff.layer_norm", f"{half}.blocks.#.feedforward_norm"),
        *both("sequence_summary.summary", "head.between"),
    ]
    asked = f"{prefix}mask_emb"
    if head == "next":
        rules += [Rule(asked, "decoder.asked"), *both("lm_loss", "head.project")]
        return Weights(tuple(rules))
    rules += both("classifier" if head == "tokens" else "logits_proj", "head.project")
    return Weights(tuple(rules), (Derived(asked, torch.zeros, (1, 1, d_model)),), frozenset({asked}))


def _format(architecture: str, head: Head) -> Format:
    def read(config: Mapping[str, Any]) -> dict[str, Any]:
        if config.get("d_head") not in (None, config["d_model"] // config["n_head"]):
            raise UserError(f"config.json: d_head is {config['d_head']}, must be d_model / n_head")
        found: dict[str, Any] = {"farthest": config["clamp_len"] if config["clamp_len"] > 0 else None}
        if head == "next":
            return found | {"tied": "head" if config["tie_word_embeddings"] else "no"}
        if head == "class":
            found |= {"pool": config["summary_type"], "class_dropout": config["summary_last_dropout"]}
        return found | ({} if head == "vector" else {"classes": read_classes(config)})

    def write(arguments: Mapping[str, Any]) -> dict[str, Any]:
        made = {"clamp_len": arguments["farthest"] or -1, "d_head": arguments["d_model"] // arguments["num_heads"]}
        made["tie_word_embeddings"] = arguments["tied"] in (None, "head")
        if head == "class":
            made |= {"summary_type": arguments["pool"], "summary_last_dropout": arguments["class_dropout"]}
        return made | ({} if arguments["classes"] is None else write_classes(arguments["classes"]))

    fixed = {"head": head} | ({"pool": "mean"} if head == "vector" else {})
    more = OF_CLASSES if head == "class" else {}
    return Format("xlnet", architecture, CONFIG, weights, DEFAULTS, FIXED | more, HARMLESS, fixed, read, write)


FORMATS = (
    _format("XLNetLMHeadModel", "next"),
    _format("XLNetForSequenceClassification", "class"),
    _format("XLNetForTokenClassification", "tokens"),
    _format("XLNetModel", "vector"),
)
