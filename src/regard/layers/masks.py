"""Masks as values. Each is one elementwise rule on the layouts of queries and keys; & | ~ combine them.

That a token sees only real tokens of its own document is not a mask but the law, added by `lower` to every one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.layers.part import part
from regard.layout import Layout


@dataclass(frozen=True, eq=False)
class Lowered:
    """A mask made ready for one pass.

    allowed: Bool[B|1 1 Q K], or None where `causal` or nothing at all limits what is seen.
    causal: query i sees keys up to i, with as many keys as queries; `allowed` is None then.
    absent: Bool[B K], keys that are padding, or None; what they hold must never reach a result, not even NaN.
    """

    allowed: Tensor | None = None
    causal: bool = False
    absent: Tensor | None = None

    def dense(self, queries: int, keys: int, device: torch.device) -> Tensor | None:
        """Bool[B|1 1 Q K], whatever the form; None if everything is allowed."""
        if self.causal:
            return torch.ones(queries, keys, dtype=torch.bool, device=device).tril_()[None, None]
        return self.allowed


class Mask:
    """Says which keys a query sees: `allows` is elementwise, its layouts' fields broadcast."""

    def allows(self, q: Layout, k: Layout) -> Tensor | None:
        """Bool[B|1 Q K], or None for everything."""
        raise NotImplementedError

    def __and__(self, other: Mask) -> Mask:
        return Both(self, other)

    def __or__(self, other: Mask) -> Mask:
        return Either(self, other)

    def __invert__(self) -> Mask:
        return Not(self)


def _distance(q: Layout, k: Layout) -> Tensor:
    return q.position[:, :, None] - k.position[:, None, :]


@part
class Everything(Mask):
    """A query sees every token of its document."""

    def allows(self, q: Layout, k: Layout) -> Tensor | None:
        return None


@part
class Causal(Mask):
    """A query sees itself and what stands before it."""

    def allows(self, q: Layout, k: Layout) -> Tensor:
        return _distance(q, k) >= 0


@part
class Window(Mask):
    """A query sees keys less than `width` positions away, on both sides."""

    width: int

    def allows(self, q: Layout, k: Layout) -> Tensor:
        return _distance(q, k).abs() < self.width


@part
class Global(Mask):
    """The first `count` tokens of a document see all of it and are seen by all of it."""

    count: int

    def allows(self, q: Layout, k: Layout) -> Tensor:
        return (q.position < self.count)[:, :, None] | (k.position < self.count)[:, None, :]


@part
class Prefix(Mask):
    """Tokens marked 1 are a prefix, seen by all; the layout must carry marks."""

    def allows(self, q: Layout, k: Layout) -> Tensor:
        if k.mark is None:
            raise ValueError("the mask Prefix reads Layout.mark, and this layout has none")
        return (k.mark == 1)[:, None, :]


@part
class Strided(Mask):
    """A query sees keys whose distance is a multiple of `stride`."""

    stride: int

    def allows(self, q: Layout, k: Layout) -> Tensor:
        return _distance(q, k) % self.stride == 0


@part
class Both(Mask):
    """What both masks allow."""

    left: Mask
    right: Mask

    def allows(self, q: Layout, k: Layout) -> Tensor | None:
        left, right = self.left.allows(q, k), self.right.allows(q, k)
        return right if left is None else left if right is None else left & right


@part
class Either(Mask):
    """What one of the masks allows."""

    left: Mask
    right: Mask

    def allows(self, q: Layout, k: Layout) -> Tensor | None:
        left, right = self.left.allows(q, k), self.right.allows(q, k)
        return None if left is None or right is None else left | right


@part
class Not(Mask):
    """What the mask forbids."""

    mask: Mask

    def allows(self, q: Layout, k: Layout) -> Tensor:
        allowed = self.mask.allows(q, k)
        if allowed is None:
            return torch.zeros(1, q.length, k.length, dtype=torch.bool, device=q.position.device)
        return ~allowed


def lower(mask: Mask, q: Layout, k: Layout) -> Lowered:
    """Make `mask` ready for queries `q` and keys `k`, with the law that a token sees only its own document."""
    plain = q.whole and k.whole
    if plain and mask == Everything():
        return Lowered()
    if plain and mask == Causal():
        if q.start >= k.start + k.length - 1:
            return Lowered()
        if q.start == k.start and q.length == k.length:
            return Lowered(causal=True)
    allowed = mask.allows(q, k)
    if plain:
        return Lowered(None if allowed is None else allowed[:, None])
    own = (q.document[:, :, None] == k.document[:, None, :]) & k.real[:, None, :]
    return Lowered((own if allowed is None else own & allowed)[:, None], absent=~k.real)


def lower_cross(q: Layout, memory: Layout) -> Lowered:
    """Every query sees every real token of its sentence's memory, Bool[B|1 1 1 S], or where the memory's rows have several
    documents of the document of its own number, Bool[B 1 Q S]."""
    if memory.whole:
        return Lowered()
    if memory.several:
        own = (q.document[:, :, None] == memory.document[:, None, :]) & memory.real[:, None, :]
        return Lowered(own[:, None], absent=~memory.real)
    return Lowered(memory.real[:, None, None, :], absent=~memory.real)
