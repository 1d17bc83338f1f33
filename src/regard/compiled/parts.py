"""From modules to the arrays that compiled code reads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.compiled.blocks import Form, Tables, Weights
from regard.compiled.kernels import KINDS, Floats
from regard.compiled.products import filled, packed
from regard.layers.embeddings import Embeddings
from regard.layers.feedforward import ACTIVATIONS, GatedFeedForward
from regard.layers.kernels import LINEAR
from regard.layers.masks import Causal, Everything
from regard.layers.norms import RootMeanSquare
from regard.layers.quick import KNOWN
from regard.layers.stack import BlockDecoder, BlockEncoder
from regard.layout import Layout


class Parts:
    """A stack's numbers as the compiled code reads them: a copy of the weights of its blocks, one upon the other."""

    def __init__(self, stack: Any) -> None:
        self.form, self.weights, self._stack = _form(stack), _weights(stack), stack
        self.tables = self._tables(1)

    @classmethod
    def of(cls, stack: Any) -> Parts | None:
        """None where a part is none of those known here: other blocks, other attention, masks that hide more than what
        comes later, other positions, another precision, a GPU."""
        return cls(stack) if _known(stack) else None

    def reach(self, positions: int) -> Tables:
        """Tables of so many positions at least. ValueError: the stack has fewer."""
        most = self._stack.limit or math.inf
        if positions > most:
            raise ValueError(f"{positions} tokens, but this model has {most} positions")
        if len(self.tables.added) < positions:
            self.tables = self._tables(int(min(most, 1 << (positions - 1).bit_length())))
        return self.tables

    def _tables(self, positions: int) -> Tables:
        stack, layout = self._stack, Layout.unpadded(positions)
        with torch.inference_mode():
            added = stack.embed.position(torch.zeros(1, positions, stack.d_model), layout)[0]
            if stack.embed.segments is not None:
                added = added + stack.embed.segments.weight[0]
            angles = [torch.zeros(positions, 0)] * 2
            if stack.position is not None:
                angles = [one[0, 0] for one in stack.position(layout, layout)[0]]
            return Tables(*(_array(one) for one in (added, *angles)))


def _known(stack: Any) -> bool:
    if type(stack) not in (BlockEncoder, BlockDecoder) or type(stack.embed) is not Embeddings:
        return False
    weight = stack.embed.tokens.weight
    if weight.dtype != torch.float32 or weight.device.type != "cpu":
        return False
    if not stack.masks <= {Causal(), Everything()} or getattr(stack.position, "biases", False):
        return False
    kinds, norms = set(), {type(stack.last_norm), type(stack.embed.norm)} - {type(None)}
    for block in stack.blocks:
        layers = [block.attention] + ([] if block.cross is None else [block.cross])
        parts = [block, block.feedforward, *layers, *(getattr(one, "attend", None) for one in layers)]
        if any(type(part) not in KNOWN for part in parts):
            return False
        norms |= {type(block.attention_norm)}
        if any(type(one) not in LINEAR for one in block.modules() if hasattr(one, "in_features")):
            return False
        kinds.add(str(_of_block(block)))
    return len(kinds) == 1 and len(norms) == 1 and norms <= {nn.LayerNorm, RootMeanSquare}


def _of_block(block: Any) -> tuple[Any, ...]:
    """What must be alike in all blocks of a stack."""
    its, inside = block.attention, block.feedforward
    kind = next(number for number, name in enumerate(KINDS) if ACTIVATIONS[name] is inside.activation)
    sizes = (its.num_heads, its.num_kv_heads, its.head_dim, its.attend.scale, block.attention_norm.eps)
    across = None if block.cross is None else (block.cross.num_heads, block.cross.num_kv_heads, block.cross.attend.scale)
    if across not in (None, (its.num_heads, its.num_kv_heads, its.attend.scale)):
        return (object(),)
    return (*sizes, kind, type(inside) is GatedFeedForward, block.post, block.cross is not None)


def _form(stack: Any) -> Form:
    heads, groups, width, scale, eps, kind, gated, post, cross = _of_block(stack.blocks[0])
    embed = stack.embed
    return Form(
        *(heads, groups, width, float(scale), float(eps), float(embed.scale)),
        *(0.0 if embed.norm is None else float(embed.norm.eps), kind, gated, post),
        type(stack.blocks[0].attention_norm) is RootMeanSquare,
        *(cross, stack.last_norm is not None, embed.norm is not None, stack.position is not None),
    )


def _array(tensor: Tensor) -> Floats:
    return np.ascontiguousarray(tensor.detach().numpy(), dtype=np.float32)


def _weights(stack: Any) -> Weights:
    """In the order of the fields of Weights."""
    blocks = list(stack.blocks)

    def norm(layer: Any) -> Tensor:
        if layer is None:
            return torch.zeros(2, stack.d_model)
        gain = layer.weight.detach()
        return torch.stack([gain, getattr(layer, "bias", torch.zeros_like(gain)).detach()])

    def matrices(layers: list[Any], parts: int = 1) -> list[Floats]:
        """Their weights and biases; of so many parts of equal size each, one after another."""
        weights = torch.stack([one.weight.detach() for one in layers]).chunk(parts, 1)
        biases = [torch.zeros(len(one.weight)) if one.bias is None else one.bias.detach() for one in layers]
        pairs = zip(weights, torch.stack(biases).chunk(parts, 1), strict=True)
        return [made for weight, bias in pairs for made in (packed(_array(weight)), filled(_array(bias)))]

    def norms(name: str) -> Floats:
        return _array(torch.stack([norm(getattr(block, name)) for block in blocks]))

    crosses = [block.cross for block in blocks if block.cross is not None]
    none = [np.zeros((0, 0, 0, 0), np.float32), np.zeros((0, 0), np.float32)]
    across = [np.zeros((0, 0, 0), np.float32), *none * 4]
    if crosses:
        across = [norms("cross_norm")]
        for name, parts in (("q", 1), ("kv", 2), ("output", 1)):
            across += matrices([getattr(one, name) for one in crosses], parts)
    made: list[Floats] = [
        *(_array(stack.embed.tokens.weight), _array(norm(stack.embed.norm)), norms("attention_norm")),
        *matrices([block.attention.qkv for block in blocks]),
        *matrices([block.attention.output for block in blocks]),
        *across,
        norms("feedforward_norm"),
        *matrices([block.feedforward.expand for block in blocks]),
        *matrices([block.feedforward.contract for block in blocks]),
        _array(norm(stack.last_norm)),
    ]
    return Weights(*made)
