"""Attention that looks only where a mask in blocks is not empty: time and memory grow with the length, not its square.

Equal to attention with the same mask in full, forward and backward. Scores exist for a few blocks of queries at a time; the
backward pass makes them again (as in Dao et al. 2022, FlashAttention, here over the chosen blocks alone).

Legend: B rows, G key/value heads, R queries' heads for each of them, n blocks of s queries, L keys a block looks at.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.layers.blocks import Blocked

ALIVE = 1 << 20
"""Scores alive at once: four megabytes stay within a CPU's cache."""


def sparse_attention(q: Tensor, k: Tensor, v: Tensor, mask: Blocked, scale: float, dropout: float = 0.0) -> Tensor:
    """Weighted sums of the values [B G K d] for each query [B H Q d]: Float[B H Q d]. dropout: on the weights."""
    y = _Near.apply(q, k, v, mask, scale, dropout)
    if mask.asking is None:
        return y
    spots = F.scaled_dot_product_attention(
        mask.asking.take(q, 2), k, v, mask.everything, dropout, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
    return mask.asking.put(y, spots, 2)


def _cut(x: Tensor, size: int, groups: int) -> Tensor:
    """[B G·R T d] -> [B G n R·s d], filled up with zeros."""
    b, h, t, d = x.shape
    x = F.pad(x, (0, 0, 0, -t % size)).view(b, groups, h // groups, -1, size, d)
    return x.transpose(2, 3).reshape(b, groups, -1, h // groups * size, d)


def _whole(x: Tensor, size: int, length: int) -> Tensor:
    """[B G n R·s d] -> [B G·R T d]."""
    b, g, n, rows, d = x.shape
    return x.view(b, g, n, rows // size, size, d).transpose(2, 3).reshape(b, -1, n * size, d)[:, :, :length]


class _Keys:
    """Keys or values cut into blocks, and those that stand out."""

    def __init__(self, x: Tensor, mask: Blocked) -> None:
        self.mask = mask
        self.blocks = _cut(x, mask.size, x.shape[1])
        self.spots = None if mask.seen is None else mask.seen.take(x, 2)

    def at(self, chosen: Tensor) -> Tensor:
        """Float[B G c L d]: what c blocks of queries look at, chosen Int[c m]."""
        near = self.blocks[:, :, chosen.flatten()].unflatten(2, chosen.shape).flatten(3, 4)
        if self.spots is None:
            return near
        return torch.cat([near, self.spots[:, :, None].expand(-1, -1, len(chosen), -1, -1)], 3)

    def add(self, chosen: Tensor, more: Tensor) -> None:
        """Add what `at` would have given to where it came from: gradients [B G c L d]."""
        m = chosen.shape[1] * self.mask.size
        near = more[:, :, :, :m].unflatten(3, (chosen.shape[1], self.mask.size)).flatten(2, 3)
        self.blocks.index_add_(2, chosen.flatten(), near)
        if self.spots is not None:
            self.spots += more[:, :, :, m:].sum(2)

    def whole(self, length: int) -> Tensor:
        """[B G T d], with what was added to tokens that stand out."""
        x = self.blocks.flatten(2, 3)
        if self.spots is None or self.mask.seen is None:
            return x[:, :, :length]
        columns = self.mask.seen.columns  # a column of its own takes what belongs to none
        x = torch.cat([x[:, :, :length], x.new_zeros(*x.shape[:2], 1, x.shape[3])], 2)
        return x.scatter_add_(2, columns[:, None, :, None].expand_as(self.spots), self.spots)[:, :, :length]


class _Near(torch.autograd.Function):
    """Every query over the keys its block looks at."""

    @staticmethod
    def chunks(mask: Blocked, rows: int) -> list[slice]:
        """Slices of blocks of queries whose scores may be alive at once; rows: B·G·R."""
        step = max(1, ALIVE // (rows * mask.size * mask.allowed.shape[-1]))
        return [slice(at, at + step) for at in range(0, len(mask.chosen), step)]

    @staticmethod
    def kept(shape: torch.Size, like: Tensor, dropout: float, seed: int, number: int) -> Tensor:
        """The factor of each weight under dropout, the same each time for the same seed and number of the chunk."""
        generator = torch.Generator(like.device).manual_seed(seed + number)
        draws = torch.rand(shape, generator=generator, device=like.device, dtype=torch.float32)
        return (draws >= dropout).to(like.dtype) / (1.0 - dropout)

    @staticmethod
    def scores(q: Tensor, k: Tensor, allowed: Tensor, size: int) -> Tensor:
        """Float[B G c R·s L], at least in single precision; -inf where nothing may be seen."""
        made = q @ k.transpose(-1, -2)
        made = made.to(torch.promote_types(made.dtype, torch.float32))
        made.unflatten(3, (-1, size)).masked_fill_(~allowed[:, None, :, None], -math.inf)
        return made

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Blocked, scale: float, dropout: float) -> Tensor:
        asked, keys, values = _cut(q * scale, mask.size, k.shape[1]), _Keys(k, mask), _Keys(v, mask)
        out = asked.new_empty(*asked.shape[:4], v.shape[3])
        norms = asked.new_empty(*asked.shape[:4], 1, dtype=torch.promote_types(q.dtype, torch.float32))
        seed = int(torch.randint(2**48, ())) if dropout else 0
        for number, part in enumerate(_Near.chunks(mask, q.shape[0] * q.shape[1])):
            odds = _Near.scores(asked[:, :, part], keys.at(mask.chosen[part]), mask.allowed[:, part], mask.size)
            top = odds.amax(-1, keepdim=True).clamp_(min=torch.finfo(odds.dtype).min)  # of a query that sees nothing too
            odds.sub_(top).exp_()
            total = odds.sum(-1, keepdim=True)
            norms[:, :, part] = torch.where(total > 0, top + total.log(), 0.0)
            odds /= total.masked_fill_(total == 0, 1.0)
            if dropout:
                odds *= _Near.kept(odds.shape, odds, dropout, seed, number)
            out[:, :, part] = odds.to(v.dtype) @ values.at(mask.chosen[part])
        ctx.save_for_backward(q, k, v, out, norms)
        ctx.mask, ctx.scale, ctx.dropout, ctx.seed = mask, scale, dropout, seed
        return _whole(out, mask.size, q.shape[2])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, norms = ctx.saved_tensors
        mask, size = ctx.mask, ctx.mask.size
        asked, keys, values = _cut(q * ctx.scale, size, k.shape[1]), _Keys(k, mask), _Keys(v, mask)
        grad = _cut(grads[0], size, k.shape[1])
        mean = (grad * out).sum(-1, keepdim=True, dtype=norms.dtype)
        asked_grad = torch.empty_like(asked)
        keys_grad, values_grad = (_Keys(torch.zeros_like(x), mask) for x in (k, v))
        for number, part in enumerate(_Near.chunks(mask, q.shape[0] * q.shape[1])):
            chosen = mask.chosen[part]
            key, value, given = keys.at(chosen), values.at(chosen), grad[:, :, part]
            odds = _Near.scores(asked[:, :, part], key, mask.allowed[:, part], size).sub_(norms[:, :, part]).exp_()
            error = (given @ value.transpose(-1, -2)).to(odds.dtype)
            dropped = odds
            if ctx.dropout:
                kept = _Near.kept(odds.shape, odds, ctx.dropout, ctx.seed, number)
                dropped, error = odds * kept, error * kept
            values_grad.add(chosen, dropped.to(v.dtype).transpose(-1, -2) @ given)
            error = error.sub_(mean[:, :, part]).mul_(odds).to(q.dtype)
            asked_grad[:, :, part] = error @ key
            keys_grad.add(chosen, error.transpose(-1, -2) @ asked[:, :, part])
        asked_grad = _whole(asked_grad, size, q.shape[2]) * ctx.scale
        return asked_grad, keys_grad.whole(k.shape[2]), values_grad.whole(k.shape[2]), None, None, None
