from __future__ import annotations

import copy
import math

import torch
from torch import nn

from regard.layers.initial import Uninitialised, glorot_, normal_


def test_glorot_is_uniform_within_its_bound():
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Linear(300, 100), nn.Embedding(500, 64), nn.LayerNorm(8), nn.Linear(4, 4, bias=False)])
    glorot_(model)
    bound = math.sqrt(6 / 400)
    assert 0.99 * bound < model[0].weight.abs().max() <= bound
    assert model[0].weight.std().item() - bound / math.sqrt(3) < 0.01 * bound
    assert (model[0].bias == 0).all()
    assert abs(model[1].weight.std().item() - 1 / 8) < 0.002
    assert (model[2].weight == 1).all()
    assert (model[2].bias == 0).all()


def test_models_are_built_without_drawing() -> None:
    before = torch.get_rng_state()
    with Uninitialised():
        linear, embedding = torch.nn.Linear(3, 4), torch.nn.Embedding(5, 6)
        torch.nn.LSTM(3, 4)
    assert torch.equal(before, torch.get_rng_state())
    assert linear.weight.shape == (4, 3)
    assert embedding.weight.shape == (5, 6)
    torch.nn.Linear(3, 4)
    assert not torch.equal(before, torch.get_rng_state())


def test_normal_divides_what_is_added_to_the_residual_stream():
    torch.manual_seed(0)
    block = nn.ModuleDict({"feedforward": nn.ModuleDict({"expand": nn.Linear(64, 256), "contract": nn.Linear(256, 64)})})
    model = nn.ModuleDict({"blocks": nn.ModuleList([block, copy.deepcopy(block)]), "norm": nn.LayerNorm(8)})
    for residual, spread in ((False, 0.1), (True, 0.1 / math.sqrt(2))):
        normal_(model, 0.1, residual)
        for name, tensor in model.named_parameters():
            if tensor.dim() == 2:
                wanted = spread if "contract" in name else 0.1
                assert abs(float(tensor.detach().std()) - wanted) < 0.03 * wanted, name
            else:
                assert (tensor == float(name == "norm.weight")).all(), name
