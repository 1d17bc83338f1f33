"""What a model answers with, and the loss against what it should have answered.

The description of a head says what it gives (`kind`): "next" the next token, "masked" the hidden ones, "class" a class,
"vector" a vector of the whole text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.feedforward import activation
from regard.layers.kernels import Dropout, Linear, linear_cross_entropy, prepared_linear
from regard.layers.norms import LayerNorm, Norm
from regard.layers.part import part
from regard.layout import Layout

IGNORED = -100
"""Target id of a position that is not predicted."""


@dataclass(frozen=True, eq=False)
class Targets:
    """What should be answered. ids: Int[B T], or Int[B] of whole texts, IGNORED where nothing is predicted (padding among
    it). smoothing: the share e of label smoothing, (1-e) on the target and e/V on every class (Szegedy et al. 2016)."""

    ids: Tensor
    smoothing: float = 0.0


@dataclass(eq=False)
class Answer:
    """logits: Float[B T V] or, of a whole text, Float[B C]; None where targets were given, and from a head that gives
    vectors. vectors: Float[B D], one a text. loss_sum: sum of the loss over predicted positions. count: how many there
    were. penalties: what else the training should hold down, by name, each summed over as many positions."""

    logits: Tensor | None = None
    vectors: Tensor | None = None
    loss_sum: Tensor | None = None
    count: int = 0
    penalties: dict[str, Tensor] = field(default_factory=dict)


def summed_loss(layer: nn.Linear, hidden: Tensor, targets: Targets) -> Answer:
    """The loss of a linear layer over hidden vectors Float[... D] whose targets are Int[...], summed over the predicted
    ones alone, whose logits never exist all at once."""
    chosen = (targets.ids != IGNORED).flatten().nonzero().squeeze(1)
    ids = targets.ids.flatten()[chosen]
    rows = hidden.flatten(0, -2)[chosen]
    return Answer(loss_sum=linear_cross_entropy(rows, layer.weight, layer.bias, ids, targets.smoothing), count=len(ids))


@part
class NextToken:
    """A linear layer from hidden vectors, × `scale`, to `vocab_size` logits."""

    kind = "next"
    vocab_size: int
    bias: bool = False
    scale: float = 1.0

    def build(self, d_model: int) -> TokenHead:
        return TokenHead(self, d_model)


class TokenHead(nn.Module):
    """The module of NextToken."""

    def __init__(self, its: NextToken, d_model: int) -> None:
        super().__init__()
        self.project = Linear(d_model, its.vocab_size, its.bias)
        self.scale = its.scale

    def forward(self, hidden: Tensor, layout: Layout | None, targets: Targets | None = None) -> Answer:
        """Float[B T D] -> logits, or with targets the summed loss."""
        hidden = hidden if self.scale == 1.0 else hidden * self.scale
        return Answer(self.project(hidden)) if targets is None else summed_loss(self.project, hidden, targets)

    def step(self, hidden: Tensor) -> Tensor:
        """Float[R D] -> logits Float[R V], for one token a row after another: faster for few rows."""
        if any(its._forward_hooks or its._forward_pre_hooks for its in (self, self.project)):
            return self(hidden, None).logits  # somebody looks on
        return prepared_linear(hidden if self.scale == 1.0 else hidden * self.scale, self.project)

    def narrowed(self, ids: Tensor) -> Callable[[Tensor], Tensor]:
        """From hidden vectors Float[… D] to the logits of these tokens alone, Float[… N]."""
        project, scale = cast(Any, self.project), self.scale
        if hasattr(project, "narrowed"):
            layer: Callable[[Tensor], Tensor] = project.narrowed(ids)
        else:
            weight, bias = project.weight[ids], None if project.bias is None else project.bias[ids]
            layer = partial(F.linear, weight=weight, bias=bias)
        return layer if scale == 1.0 else lambda hidden: layer(hidden * scale)


@part
class MaskedToken:
    """What stands at a position, seen from both sides (Devlin et al. 2019): a layer with `activation` and a norm, then a
    linear layer to `vocab_size` logits."""

    kind = "masked"
    vocab_size: int
    activation: str = "gelu"
    norm: Norm = LayerNorm(1e-12)
    bias: bool = True

    def build(self, d_model: int) -> MaskedTokenHead:
        return MaskedTokenHead(self, d_model)


class MaskedTokenHead(nn.Module):
    """The module of MaskedToken."""

    def __init__(self, its: MaskedToken, d_model: int) -> None:
        super().__init__()
        self.transform, self.norm = Linear(d_model, d_model), its.norm.build(d_model)
        self.activation = activation(its.activation)
        self.project = Linear(d_model, its.vocab_size, its.bias)

    def forward(self, hidden: Tensor, layout: Layout, targets: Targets | None = None) -> Answer:
        """Float[B T D] -> logits Float[B T V], or with targets the summed loss of the masked positions alone."""
        if targets is None:
            return Answer(self.project(self.norm(self.activation(self.transform(hidden)))))
        chosen = (targets.ids != IGNORED).flatten().nonzero().squeeze(1)
        rows = self.norm(self.activation(self.transform(hidden.flatten(0, 1)[chosen])))
        return summed_loss(self.project, rows, Targets(targets.ids.flatten()[chosen], targets.smoothing))


Pool = Literal["first", "last", "mean", "tokens"]


def pooled(hidden: Tensor, layout: Layout, pool: Pool) -> Tensor:
    """Float[B T D] -> Float[B D]: the vector of each row's first or last real token, or their mean; "tokens": as it is."""
    if pool == "tokens":
        return hidden
    real = layout.real.expand(hidden.shape[0], -1)
    if pool == "mean":
        kept = hidden.masked_fill(~real[..., None], 0.0)
        return kept.sum(1) / real.sum(1, keepdim=True).clamp(min=1)
    column = torch.arange(hidden.shape[1], device=hidden.device).expand_as(real)
    far = hidden.shape[1]
    place = column.masked_fill(~real, -1).amax(1) if pool == "last" else column.masked_fill(~real, far).amin(1)
    return hidden[torch.arange(len(place), device=hidden.device), place.clamp(0, far - 1)]


@part
class Classify:
    """One of `classes` for each text, or with pool="tokens" for each token. between: a layer of the same width before the
    last, with this activation (BERT's pooler, RoBERTa's head); None for none. dropout: before the last layer, and with
    dropout_first before the layer between too."""

    kind = "class"
    classes: int
    pool: Pool = "first"
    between: str | None = None
    dropout: float = 0.0
    dropout_first: bool = False
    bias: bool = True

    def build(self, d_model: int) -> ClassHead:
        return ClassHead(self, d_model)


class ClassHead(nn.Module):
    """The module of Classify."""

    def __init__(self, its: Classify, d_model: int) -> None:
        super().__init__()
        if its.pool not in get_args(Pool):
            raise ValueError(f"pool must be one of {', '.join(get_args(Pool))}, not {its.pool!r}")
        self.pool: Pool = its.pool
        self.between = None if its.between is None else nn.Linear(d_model, d_model)
        self.activation = activation(its.between or "tanh")
        self.first, self.dropout = Dropout(its.dropout if its.dropout_first else 0.0), Dropout(its.dropout)
        self.project = Linear(d_model, its.classes, its.bias)

    def forward(self, hidden: Tensor, layout: Layout, targets: Targets | None = None) -> Answer:
        """Float[B T D] -> logits Float[B C] (tokens: Float[B T C]), or with targets Int[B] (Int[B T]) the summed loss."""
        x = pooled(hidden, layout, self.pool)
        if self.between is not None:
            x = self.activation(self.between(self.first(x)))
        x = self.dropout(x)
        return Answer(self.project(x)) if targets is None else summed_loss(self.project, x, targets)


@part
class Embedding:
    """A vector for each text: the mean of its tokens' vectors, or the first or last of them; normalise: of length 1."""

    kind = "vector"
    pool: Pool = "mean"
    normalise: bool = False

    def build(self, d_model: int) -> EmbeddingHead:
        return EmbeddingHead(self)


class EmbeddingHead(nn.Module):
    """The module of Embedding."""

    def __init__(self, its: Embedding) -> None:
        super().__init__()
        self.pool: Pool = its.pool
        self.normalise = its.normalise

    def forward(self, hidden: Tensor, layout: Layout, targets: Targets | None = None) -> Answer:
        """Float[B T D] -> vectors Float[B D]; ValueError with targets: there is no loss."""
        if targets is not None:
            raise ValueError("a head of sentence vectors has nothing to be trained on: choose another head")
        vectors = pooled(hidden, layout, self.pool)
        return Answer(vectors=F.normalize(vectors, dim=-1) if self.normalise else vectors)


def chosen(heads: Mapping[str, Any], name: str) -> Any:
    """The description of that name. ValueError if there is none, or if it is of classes and their number is 0: not said."""
    if name not in heads:
        *most, last = map(repr, heads)
        raise ValueError(f"head must be {', '.join(most)} or {last}, not {name!r}")
    if getattr(heads[name], "classes", 1) < 1:
        raise ValueError(f"a head of kind {name!r} needs the number of `classes`")
    return heads[name]
