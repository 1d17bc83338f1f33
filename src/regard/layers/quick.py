"""One token a row through a stack of blocks, with as few calls as possible: the fast twin of `Stack`'s slow `run`.

A step of a small model is short: beside the products, most of its time goes into calling modules one inside the other.
Here a stack is flattened, once for each state, into plain functions over Float[R D]. What this does not know (other blocks,
other attention), or must not skip (hooks that look on, dropout, padding among the keys) takes the slow way; both give the
same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.attention import Attend, MultiHeadAttention
from regard.layers.block import TransformerBlock
from regard.layers.feedforward import DenseFeedForward, GatedFeedForward
from regard.layers.frame import Frame
from regard.layers.kernels import LINEAR
from regard.layers.lineage import Lineage
from regard.layers.masks import Causal
from regard.layers.positions import turned
from regard.layers.state import Cache

Function = Callable[[Tensor], Tensor]
KNOWN = {TransformerBlock, MultiHeadAttention, Attend, DenseFeedForward, GatedFeedForward}


class Step(NamedTuple):
    """What a layer needs in a step. allowed: what is added to the scores of each mask, or None; under None, the memory's.
    beams: rows that share a cache."""

    frame: Frame
    cache: Cache
    allowed: dict[Any, Tensor | None]
    beams: int


Part = Callable[[Tensor, Step], Tensor]


class Quick:
    """A stack's blocks as functions. To be made anew when modules were put in the place of others.

    branches: whether all that a token sees are the tokens before it, each alike, so that beams may share caches."""

    def __init__(self, stack: Any) -> None:
        self.blocks = [_block(block) for block in stack.blocks]
        self.last = _plain if stack.last_norm is None else _norm(stack.last_norm)
        self._seen: Tensor | None = None
        self._across: Tensor | None = None
        self.branches = stack.masks <= {Causal()} and not getattr(stack.position, "biases", False)
        self.modules = [module for part in (stack.blocks, stack.last_norm) if part is not None for module in part.modules()]

    @classmethod
    def of(cls, stack: Any) -> Quick | None:
        """None where a part is none of those known here."""
        for block in stack.blocks:
            parts = [block, block.attention, block.attention.attend] if hasattr(block.attention, "attend") else [None]
            if block.cross is not None:
                parts += [block.cross, getattr(block.cross, "attend", None)]
            if any(type(part) not in KNOWN for part in (*parts, block.feedforward)):
                return None
        return cls(stack)

    def fits(self, x: Tensor, frame: Frame) -> bool:
        """Whether this pass over x Float[R T D] is one that `run` may take: one token a row, nothing that looks on."""
        if x.shape[1] != 1 or self.modules[0].training or frame.across.absent is not None:
            return False
        if any(its.causal or its.absent is not None or its.blocked is not None for its in frame.masks.values()):
            return False
        return not self.watched()

    def watched(self) -> bool:
        """Whether a hook looks on."""
        return any(module._forward_hooks or module._forward_pre_hooks for module in self.modules)

    def run(self, x: Tensor, frame: Frame, caches: list[Cache], lineage: Lineage | None = None) -> Tensor:
        """Float[R 1 D] -> Float[R 1 D]; the caches take the tokens in. lineage: of beams that share caches."""
        allowed: dict[Any, Tensor | None] = {mask: lowered.allowed for mask, lowered in frame.masks.items()}
        if lineage is not None:
            lineage.grow()
            allowed = dict.fromkeys(allowed, lineage.seen[:, None])
        elif frame.bias is not None:
            bias = frame.bias
            allowed = {mask: bias if a is None else bias.masked_fill(~a, -torch.inf) for mask, a in allowed.items()}
        allowed[None] = self._looking(frame.across.allowed, x)
        y, beams = x[:, 0], 1 if lineage is None else lineage.beams
        for block, cache in zip(self.blocks, caches, strict=True):
            y = block(y, Step(frame, cache, allowed, beams))
        return self.last(y)[:, None]

    def _looking(self, seen: Tensor | None, x: Tensor) -> Tensor | None:
        """The memory's mask as what is added to scores; made once, for it stays the same from step to step."""
        if seen is not self._seen:
            self._seen = seen
            self._across = None if seen is None else x.new_zeros(seen.shape).masked_fill_(~seen, -torch.inf)
        return self._across


def _plain(x: Tensor) -> Tensor:
    return x


def _linear(layer: Any) -> Function:
    if type(layer) not in LINEAR:
        return layer.forward
    weight, bias = layer.weight, layer.bias
    return lambda x: F.linear(x, weight, bias)


def _norm(layer: Any) -> Function:
    if type(layer) is not nn.LayerNorm:
        return layer.forward
    shape, weight, bias, eps = layer.normalized_shape, layer.weight, layer.bias, layer.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def _block(block: Any) -> Part:
    attention, first = _attention(block.attention), _norm(block.attention_norm)
    feedforward, last = _feedforward(block.feedforward), _norm(block.feedforward_norm)
    cross: Part | None = None
    middle: Function = _plain
    if block.cross is not None:
        cross, middle = _cross(block.cross), _norm(block.cross_norm)

    def post(x: Tensor, step: Step) -> Tensor:
        x = first(x + attention(x, step))
        if cross is not None:
            x = middle(x + cross(x, step))
        return last(x + feedforward(x))

    def pre(x: Tensor, step: Step) -> Tensor:
        x = x + attention(first(x), step)
        if cross is not None:
            x = x + cross(middle(x), step)
        return x + feedforward(last(x))

    return post if block.post else pre


def _attention(layer: Any) -> Part:
    qkv, output, mask, scale = _linear(layer.qkv), _linear(layer.output), layer.mask, layer.attend.scale
    heads, groups, width = layer.num_heads, layer.num_kv_heads, layer.head_dim
    sizes, grouped = (heads, 2 * groups), heads != groups

    def run(x: Tensor, step: Step) -> Tensor:
        rows, beams = x.shape[0], step.beams
        q, pair = qkv(x).view(rows, heads + 2 * groups, width).split_with_sizes(sizes, 1)
        if step.frame.turn is not None:
            q, k = (turned(t.unsqueeze(2), *step.frame.turn).squeeze(2) for t in (q, pair[:, :groups]))
            pair = torch.cat([k, pair[:, groups:]], 1)
        k, v = step.cache.push(pair.unflatten(1, (2, groups)), beams)
        q = q.unflatten(0, (-1, beams)).transpose(1, 2)  # beams that share a cache are its queries
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=step.allowed[mask], scale=scale, enable_gqa=grouped)
        return output(y.transpose(1, 2).reshape(rows, heads * width))

    return run


def _cross(layer: Any) -> Part:
    query, output, scale = _linear(layer.q), _linear(layer.output), layer.attend.scale
    heads, width, grouped = layer.num_heads, layer.head_dim, layer.num_heads != layer.num_kv_heads

    def run(x: Tensor, step: Step) -> Tensor:
        k, v = step.cache.across
        q = query(x).view(k.shape[0], -1, heads, width).transpose(1, 2)  # the beams of a sentence are its queries
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=step.allowed[None], scale=scale, enable_gqa=grouped)
        return output(y.transpose(1, 2).reshape(x.shape[0], heads * width))

    return run


def _feedforward(layer: Any) -> Function:
    expand, contract = _linear(layer.expand), _linear(layer.contract)
    activation = torch.relu_ if layer.activation is F.relu else layer.activation
    if type(layer) is DenseFeedForward:
        return lambda x: contract(activation(expand(x)))

    def gated(x: Tensor) -> Tensor:
        gate, value = expand(x).chunk(2, -1)
        return contract(layer.activation(gate) * value)

    return gated
