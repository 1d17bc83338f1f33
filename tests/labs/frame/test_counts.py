"""Counting."""

from __future__ import annotations

import torch
from torch.nn import functional

from regard.labs.frame.counts import flops, largest_kept


def test_products_and_fused_attention_are_counted():
    a, b = torch.randn(3, 5), torch.randn(5, 7)
    assert flops(lambda: a @ b) == 2 * 3 * 5 * 7
    q, k = torch.randn(1, 2, 16, 8), torch.randn(1, 2, 32, 8)
    assert flops(lambda: functional.scaled_dot_product_attention(q, k, k)) == 2 * (2 * 16 * 32 * 8) * 2


def test_the_largest_tensor_that_is_kept():
    x = torch.randn(4, 6, requires_grad=True)
    assert largest_kept(lambda: (x @ torch.randn(6, 50)).softmax(1)) == 4 * 6 * 50
