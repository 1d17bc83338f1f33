"""What the products of a forward pass cost, read off a description."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import sdpa_flop_count

from regard.architecture import Description
from regard.layers.blocks import blocked
from regard.layout import Layout


def _attention(query: Any, key: Any, value: Any, *rest: Any, out_shape: Any = None, **more: Any) -> int:
    return sdpa_flop_count(query, key, value)


def _lstm(x: Any, given: Any, hidden: Any, *rest: Any, out_shape: Any = None, **more: Any) -> int:
    return 2 * x[0] * x[1] * (given[0] * given[1] + hidden[0] * hidden[1])


def _linear(x: Any, weight: Any, *rest: Any, out_shape: Any = None, **more: Any) -> int:
    return 2 * math.prod(x) * weight[0]


UNCOUNTED: dict[Any, Any] = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    torch.ops.aten.mkldnn_rnn_layer: _lstm,
}
"""Kernels of CPUs that torch's FlopCounterMode does not know: its `custom_mapping`. Attention counts over all pairs."""
if torch.backends.mkldnn.is_available():
    UNCOUNTED[torch.ops.mkldnn._linear_pointwise] = _linear


def flops(description: Description, length: int = 128) -> dict[str, int]:
    """FLOPs of the matrix products of one text's forward pass, a multiplication and an addition as two, by module name.

    length: tokens of the text, on both sides of an encoder-decoder; a model of images has its own. What is counted: each
    linear layer once a token (of experts the active ones; once a text where a head pools, or a first state is made), and
    attention's two products over all pairs of queries and keys, those that a mask rules out too, unless the mask is so
    empty that attention works in blocks. Left out: norms, softmax, activations, whose time is memory's, and what a
    few tokens do alone (Longformer's global ones).
    """
    model = description.on_meta()
    found: dict[str, int] = {}
    for name, half in (("encoder", model.encoder), ("decoder", model.decoder)):
        if half is not None:
            tokens = _tokens(half, length)
            found |= {f"{name}.{path}": count for path, count in _half(half, tokens)}
    last = model.encoder if model.decoder is None else model.decoder
    rows = _tokens(last, length) if getattr(description.head, "pool", "tokens") == "tokens" else 1
    found |= {f"head.{path}": _products(module) * rows for path, module in model.head.named_modules() if _products(module)}
    return found


def _tokens(half: Any, length: int) -> int:
    grid = getattr(half.embed, "grid", None)
    return length if grid is None else 1 + grid[0] * grid[1]


def _half(half: Any, tokens: int) -> Iterator[tuple[str, int]]:
    for path, module in half.named_modules():
        count = _products(module) * (1 if path.startswith("bridge.") else tokens)
        if path == "attend.score" and module.out_features == 1:  # a score for each pair
            count *= tokens
        if hasattr(module, "num_heads") and hasattr(module, "head_dim"):
            count += 4 * module.num_heads * module.head_dim * _pairs(getattr(module, "mask", None), tokens)
        if hasattr(module, "place_shift"):  # vectors of distances, and their products with all queries
            rows = 2 * min(tokens, half.farthest or tokens) + 1
            count += 2 * module.num_heads * module.head_dim * tokens * rows + _products(module.place) * (rows - tokens)
        if path == "attend":  # of a recurrent decoder, over states of its own width
            query = 0 if hasattr(module, "score") else half.inner + half.d_model * half.reads_token
            count += 2 * (query + half.inner) * tokens * tokens
        if count:
            yield path, count


def _pairs(mask: Any, tokens: int) -> int:
    """Queries times the keys that attention looks at: all, or those in the blocks of a mask that is mostly empty."""
    layout = Layout.unpadded(tokens)
    cut = None if mask is None or getattr(mask, "reach", None) is None else blocked(mask, layout, layout)
    return tokens * tokens if cut is None else cut.allowed.numel()


def _products(module: nn.Module) -> int:
    """FLOPs of a module's own products for one token: two for each of its weights that multiplies."""
    if isinstance(module, nn.modules.conv._ConvNd):
        return 2 * module.weight.numel()
    if isinstance(module, (nn.Linear, nn.RNNBase)):
        return 2 * sum(weight.numel() for weight in module.parameters(recurse=False) if weight.dim() == 2)
    if hasattr(module, "active") and hasattr(module, "count"):
        its: Any = module
        held = sum(w.numel() for w in module.parameters(recurse=False) if w.dim() == 3 and w.shape[0] == its.count)
        return 2 * held * its.active // its.count
    return 0
