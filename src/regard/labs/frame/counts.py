"""What a computation does, counted as it is done: floating-point operations, and what is kept for the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from regard.inspection.flops import UNCOUNTED


def flops(work: Callable[[], Any]) -> int:
    """Operations of all matrix products that `work` does, a multiplication and an addition as two; torch's fused attention
    for the CPU counts as its two products over all pairs, which torch itself leaves out."""
    with FlopCounterMode(display=False, custom_mapping=UNCOUNTED) as counter, torch.no_grad():
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
