"""What a computation does, counted as it is done: floating-point operations, and what is kept for the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count


def _attention(q: Any, k: Any, v: Any, *rest: Any, out_shape: Any = None, **more: Any) -> int:
    return sdpa_flop_count(q, k, v)


def flops(work: Callable[[], Any]) -> int:
    """Operations of all matrix products that `work` does, a multiplication and an addition as two; torch's fused attention
    for the CPU counts as its two products over all pairs, which torch itself leaves out."""
    fused = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention}
    with FlopCounterMode(display=False, custom_mapping=fused) as counter, torch.no_grad():
        work()
    return int(counter.get_total_flops())


def largest_kept(work: Callable[[], Tensor]) -> int:
    """Bytes of the largest tensor that `work` keeps for its backward pass."""
    most = 0

    def pack(kept: Tensor) -> Tensor:
        nonlocal most
        most = max(most, kept.numel() * kept.element_size())
        return kept

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
        work()
    return most
