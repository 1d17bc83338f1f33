"""Several models that write together: at each step the mean of their probabilities. To the search it is a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.heads import Answer
from regard.layout import Layout


class Memories:
    """What each member's encoder returned."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def take(self, rows: Tensor) -> Memories:
        """The memories of the sentences chosen by index."""
        return Memories([part.take(rows) for part in self.parts])


class States:
    """What each member's decoder has read: all rows alike, so whatever is done to one is done to all."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts
        self.penalties: dict[str, Tensor] = {}

    @property
    def length(self) -> int:
        """Columns read so far."""
        return self.parts[0].length

    def select(self, rows: Tensor) -> None:
        """Make row i a copy of what row rows[i] was."""
        for part in self.parts:
            part.select(rows)

    def keep(self, sentences: Tensor) -> None:
        """Drop all sentences but those chosen by index."""
        for part in self.parts:
            part.keep(sentences)

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` columns. TypeError: a member's state cannot."""
        for part in self.parts:
            part.rewind(length)


class Mixture(nn.Module):
    """Models of one vocabulary as one: log of the mean of their next-token probabilities.

    members: Models of any families, all with an encoder or all without. shares: how much each counts; None: all alike. A
    head may have more entries than the others': the entries that all have are what is mixed. ValueError: no members, or
    members of both kinds, or shares that are not positive.
    """

    def __init__(self, members: Sequence[Any], shares: Sequence[float] | None = None) -> None:
        super().__init__()
        shares = [1.0] * len(members) if shares is None else list(shares)
        if not members or len(shares) != len(members) or min(shares) <= 0:
            raise ValueError(f"{len(members)} models and the shares {shares}: there must be one above 0 for each model")
        if len({one.encoder is None for one in members}) > 1:
            raise ValueError("models with an encoder and without one cannot write together")
        self.members, self.shares = nn.ModuleList(members), shares
        first = members[0].description
        self.size = min(one.description.head.vocab_size for one in members)
        self.description = replace(first, head=replace(first.head, vocab_size=self.size))
        self.pad = first.pad
        self.encoder: Any = None if members[0].encoder is None else _shortest([one.encoder for one in members])
        self.decoder: Any = _shortest([one.decoder for one in members])

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def encode(self, inputs: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Memories:
        """Int[B S] -> Memories."""
        return Memories([one.encode(inputs, layout, segments) for one in self._each()])

    def start(self, memory: Memories | None, room: int) -> States:
        """States to read up to `room` tokens through."""
        parts = [None] * len(self.members) if memory is None else memory.parts
        return States([one.start(part, room) for one, part in zip(self._each(), parts, strict=True)])

    def step(self, tokens: Tensor, state: States, layout: Layout | None = None) -> Tensor:
        """Read tokens Int[R T]: logits Float[R V] after the last of them."""
        pairs = zip(self._each(), state.parts, strict=True)
        return mixed([one.step(tokens, part, layout) for one, part in pairs], self.shares, self.size)

    def forward(
        self,
        inputs: Tensor,
        outputs: Tensor | None = None,
        *,
        segments: Tensor | None = None,
        layout: Layout | None = None,
        output_layout: Layout | None = None,
    ) -> Answer:
        """The answer of `Model` without targets: an ensemble is not trained, its members are."""
        given = {"segments": segments, "layout": layout, "output_layout": output_layout}
        logits: list[Any] = [one(inputs, outputs, **given).logits for one in self._each()]
        return Answer(mixed(logits, self.shares, self.size))

    def _each(self) -> list[Any]:
        return list(self.members)


def _shortest(halves: list[Any]) -> SimpleNamespace:
    """What the search asks of an encoder or decoder: how much all of them read."""
    limits = [half.limit for half in halves if half.limit is not None]
    return SimpleNamespace(limit=min(limits, default=None))


def mixed(logits: Sequence[Tensor], shares: Sequence[float], size: int) -> Tensor:
    """Logits Float[... size] of the mean of distributions, in single precision at least, with the first one's normaliser:
    where all members are alike the result is the first one's logits bit for bit."""
    wide = [one[..., :size].to(torch.promote_types(one.dtype, torch.float32)) for one in logits]
    norms = [one.logsumexp(-1, keepdim=True) for one in wide]
    level = [one - (norm - norms[0]) for one, norm in zip(wide, norms)]
    top = torch.stack(level).amax(0).clamp(min=torch.finfo(level[0].dtype).min)
    total = sum((share * (one - top).exp() for one, share in zip(level, shares)), torch.zeros_like(top))
    return top + (total / sum(shares)).log()
