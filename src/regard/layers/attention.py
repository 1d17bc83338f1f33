"""Attention: read this first.

A query asks, keys answer how well they fit, values are what is said. For each query q the score of key k is q·k / sqrt(d);
softmax over the keys that the mask allows turns scores into weights that sum to one; the result is the sum of the values,
each times its weight (Vaswani et al. 2017, section 3.2). Additive, dot, general and concat scores of Bahdanau et al. 2015
and Luong et al. 2015 differ in the score alone, and stand in `scores.py` behind the same `attend`.

Legend: B rows, T tokens, Q queries, K keys, H heads, G key/value heads, d head width, D model width.
"""

from __future__ import annotations

import math
from typing import Protocol

from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.frame import Frame
from regard.layers.kernels import Dropout, Linear
from regard.layers.masks import Everything, Lowered, Mask
from regard.layers.part import part
from regard.layers.positions import turned
from regard.layers.sparse import sparse_attention
from regard.layers.state import Cache, Memory


def weights_of(scores: Tensor, allowed: Tensor | None = None) -> Tensor:
    """Softmax over the last axis among the allowed keys.

    scores: Float[B H Q K]; allowed: Bool, broadcastable to it, or None. A query that may see nothing gets zeros, with
    gradients that are zero too (softmax over nothing would be NaN).
    """
    if allowed is None:
        return scores.softmax(-1)
    alive = allowed.any(-1, keepdim=True)
    return scores.masked_fill(~allowed & alive, -math.inf).softmax(-1) * alive


def without_absent(x: Tensor, absent: Tensor | None) -> Tensor:
    """Keys or values [B G K d] with zeros where they are padding: 0 × NaN would be NaN."""
    return x if absent is None else x.masked_fill(absent[:, None, :, None], 0.0)


def for_each_head(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values [B G K d], again for each of the heads of q [B H Q d] that share them."""
    return x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1)


class Attend(nn.Module):
    """Where queries meet keys. `forward` is the fast body, `explain` the definition; both agree.

    Kernels replace this module, the inspector hooks it; nothing else in regard knows that either exists.
    """

    def __init__(self, scale: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.scale, self.dropout = scale, Dropout(dropout)

    def explain(self, q: Tensor, k: Tensor, mask: Lowered, bias: Tensor | None = None) -> Tensor:
        """Weights Float[B H Q K] of queries [B H Q d] over keys [B G K d], by the definition."""
        k = for_each_head(without_absent(k, mask.absent), q)
        scores = q @ k.transpose(-1, -2) * self.scale
        if bias is not None:
            scores = scores + bias
        return weights_of(scores, mask.dense(q.shape[2], k.shape[2], q.device))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Lowered, bias: Tensor | None = None) -> Tensor:
        """Weighted sums of the values [B G K d] for each query: Float[B H Q d]."""
        v, blocked = without_absent(v, mask.absent), mask.blocked if bias is None else None
        if self.dropout.cheap(q) and blocked is None:  # torch's body would draw its masks one number at a time
            return self.dropout(self.explain(q, k, mask, bias)) @ for_each_head(v, q)
        k, dropout = without_absent(k, mask.absent), self.dropout.p if self.dropout.active else 0.0
        if blocked is not None:
            return sparse_attention(q, k, v, blocked, self.scale, dropout)
        allowed = mask.allowed
        if bias is not None:
            allowed = mask.dense(q.shape[2], k.shape[2], q.device)
            allowed = bias if allowed is None else bias.masked_fill(~allowed, -math.inf)
        return F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=allowed,
            is_causal=mask.causal and bias is None,
            dropout_p=dropout,
            scale=self.scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )


class Attends(Protocol):
    """A description of an `attend` body."""

    def build(self, head_dim: int, dropout: float) -> nn.Module: ...


@part
class ScaledDot:
    """q·k / sqrt(d), or q·k × `scale`."""

    scale: float | None = None

    def build(self, head_dim: int, dropout: float) -> Attend:
        return Attend(head_dim**-0.5 if self.scale is None else self.scale, dropout)


@part
class Attention:
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2), or grouped with fewer key/value heads.

    num_kv_heads: None for as many as num_heads. head_dim: None for d_model / num_heads. cross: queries of a decoder, keys
    and values of a memory. bias: in the products that make q, k and v; output_bias: in the last one, None for as in the
    others. dropout: on the weights (not in the paper).
    """

    num_heads: int
    num_kv_heads: int | None = None
    head_dim: int | None = None
    mask: Mask = Everything()
    cross: bool = False
    bias: bool = True
    output_bias: bool | None = None
    dropout: float = 0.0
    attend: Attends = ScaledDot()

    def build(self, d_model: int) -> MultiHeadAttention:
        return MultiHeadAttention(self, d_model)


class MultiHeadAttention(nn.Module):
    """Projects to queries, keys, values, lets each head attend, projects the heads' results back.

    One fused product makes q, k, v (cross: q and kv); `fused` has the rows of each.
    """

    def __init__(self, its: Attention, d_model: int) -> None:
        super().__init__()
        if its.head_dim is None and d_model % its.num_heads:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {its.num_heads}")
        self.mask, self.cross = its.mask, its.cross
        self.num_heads, self.num_kv_heads = its.num_heads, its.num_heads if its.num_kv_heads is None else its.num_kv_heads
        if self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_heads {self.num_heads} is not a multiple of num_kv_heads {self.num_kv_heads}")
        self.head_dim = d_model // its.num_heads if its.head_dim is None else its.head_dim
        inner, shared = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        if self.cross:
            self.q = Linear(d_model, inner, its.bias)
            self.kv = Linear(d_model, 2 * shared, its.bias)
        else:
            self.qkv = Linear(d_model, inner + 2 * shared, its.bias)
        self.fused = {"kv.weight": (shared, shared)} if self.cross else {"qkv.weight": (inner, shared, shared)}
        self.output = Linear(inner, d_model, its.bias if its.output_bias is None else its.output_bias)
        self.attend = its.attend.build(self.head_dim, its.dropout)

    def heads(self, x: Tensor, count: int) -> Tensor:
        """[B T count·d] -> [B count T d]."""
        return x.unflatten(-1, (count, self.head_dim)).transpose(1, 2)

    def keys_values(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [B G S d] of a memory [B S D]; a decoder's state keeps them."""
        k, v = self.kv(memory).chunk(2, -1)
        return self.heads(k, self.num_kv_heads), self.heads(v, self.num_kv_heads)

    def forward(self, x: Tensor, frame: Frame, cache: Cache | None = None, memory: Memory | None = None) -> Tensor:
        """x: Float[B T D] -> Float[B T D]. With `cross`, B may be a multiple of the memory's rows: its beams."""
        if self.cross:
            assert memory is not None
            return self._cross(x, frame, cache, memory)
        sizes = (self.num_heads, self.num_kv_heads, self.num_kv_heads)
        q, k, v = self.qkv(x).split([n * self.head_dim for n in sizes], -1)
        q, k, v = (self.heads(part, n) for part, n in zip((q, k, v), sizes, strict=True))
        if frame.turn is not None:
            q, k = turned(q, *frame.turn), turned(k, *frame.turn)
        if cache is not None:
            k, v = cache.extend(k, v)
        return self.output(self.attend(q, k, v, frame.masks[self.mask], frame.bias).transpose(1, 2).flatten(2))

    def _cross(self, x: Tensor, frame: Frame, cache: Cache | None, memory: Memory) -> Tensor:
        k, v = self.keys_values(memory.states) if cache is None else cache.across
        q = self.heads(self.q(x), self.num_heads)
        rows, beams, tokens = k.shape[0], x.shape[0] // k.shape[0], x.shape[1]
        if beams > 1:  # the beams of a sentence become more queries of the same keys
            q = q.unflatten(0, (rows, beams)).transpose(1, 2).flatten(2, 3)
        y = self.attend(q, k, v, frame.across)
        if beams > 1:
            y = y.unflatten(2, (beams, tokens)).transpose(1, 2).flatten(0, 1)
        return self.output(y.transpose(1, 2).flatten(2))
