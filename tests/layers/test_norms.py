from __future__ import annotations

import torch

from regard.layers.norms import LayerNorm


def test_layer_norm_is_its_formula():
    x, module = torch.randn(2, 3, 8, dtype=torch.float64), LayerNorm(1e-3).build(8).double()
    with torch.no_grad():
        module.weight.uniform_(0.5, 2.0)
        module.bias.normal_()
    centred = x - x.mean(-1, keepdim=True)
    want = centred / (centred.square().mean(-1, keepdim=True) + 1e-3).sqrt() * module.weight + module.bias
    torch.testing.assert_close(module(x), want)
