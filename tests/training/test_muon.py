"""Muon against its definition, and what it leaves to Adam."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard import models
from regard.training.muon import MOMENTUM, ROOT_MEAN_SQUARE, Muon, build_muon, hidden_matrices, orthogonal
from regard.training.sections import Training

SETTINGS = Training(max_steps=10, optimizer="muon", learning_rate=0.01, weight_decay=0.1)


def small(name: str = "transformer", **arguments: object) -> nn.Module:
    torch.manual_seed(1)
    sizes = {"d_model": 8, "num_layers": 1}
    sizes |= {"d_ff": 12, "num_heads": 2, "num_kv_heads": 1, "gated": True} if name == "transformer" else {}
    model = models.find(name).describe(vocab_size=13, **sizes, **arguments).build()
    models.find(name).initialise(model)
    return model


@pytest.mark.parametrize("shape", [(8, 8), (24, 8), (3, 8, 20)])
def test_singular_values_come_near_one(shape):
    torch.manual_seed(0)
    x = torch.randn(*shape, dtype=torch.float64)
    u, _, v = torch.linalg.svd(x, full_matrices=False)
    y = orthogonal(x)
    values, before = torch.linalg.svdvals(y), torch.linalg.svdvals(x)
    assert values.max() < 1.87
    assert values[before > 0.002 * x.norm(dim=(-2, -1))[..., None]].min() > 0.18
    # the singular vectors are those of x
    turned = u.mT @ y @ v.mT
    torch.testing.assert_close(turned, torch.diag_embed(turned.diagonal(dim1=-2, dim2=-1)), rtol=0, atol=1e-9)


def test_an_update_is_the_definition_for_each_fused_product():
    model = small()
    optimizer = build_muon(model, SETTINGS)
    weight = model.encoder.blocks[0].attention.qkv.weight
    before, gradients = weight.detach().clone(), [torch.randn_like(weight) for _ in range(2)]
    momentum = torch.zeros_like(weight)
    for gradient in gradients:
        for p in model.parameters():
            p.grad = torch.zeros_like(p)
        weight.grad = gradient.clone()
        optimizer.step()
        momentum = MOMENTUM * momentum + (1 - MOMENTUM) * gradient
        update = MOMENTUM * momentum + (1 - MOMENTUM) * gradient
        moves = torch.cat([orthogonal(part) * max(part.shape) ** 0.5 for part in update.split([8, 4, 4])])
        before = before * (1 - 0.01 * 0.1) - 0.01 * ROOT_MEAN_SQUARE * moves
    torch.testing.assert_close(weight.detach(), before)


def test_embeddings_heads_and_vectors_are_adams():
    model = small(tied="no", positions="learned", max_positions=9)
    hidden = hidden_matrices(model)
    assert {name.split(".")[-2] for name in hidden} == {"qkv", "q", "kv", "output", "expand", "contract"}
    assert hidden["encoder.blocks.0.feedforward.expand.weight"] == (12, 12)
    optimizer = build_muon(model, SETTINGS)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    names = {id(p): name for name, p in model.named_parameters()}
    kinds = {names[id(p)]: set(state) for p, state in optimizer.state.items()}
    assert all((kinds[name] == {"momentum"}) == (name in hidden) for name in kinds)


def test_gates_of_a_recurrent_cell_are_matrices_of_their_own():
    hidden = hidden_matrices(small("rnn", cell="gru", both_ways=False, attention="general"))
    assert hidden["decoder.layers.0.weight_hh_l0"] == (8, 8, 8)
    assert not any("embed" in name or "bias" in name for name in hidden)


def test_stacked_experts_are_matrices_of_their_own():
    stacked = nn.Parameter(torch.zeros(3, 4, 6))
    optimizer = Muon([{"params": [stacked], "rows": [(2, 2)], "weight_decay": 0.0}], 0.1, (0.9, 0.99), 1e-8)
    stacked.grad = torch.randn(3, 4, 6)
    optimizer.step()
    for number in range(3):
        for half in (slice(0, 2), slice(2, 4)):
            move = -0.1 * ROOT_MEAN_SQUARE * 6**0.5 * orthogonal(stacked.grad[number, half])
            torch.testing.assert_close(stacked[number, half].detach(), move, rtol=1e-4, atol=1e-5)


def test_it_learns_and_its_state_goes_through_a_checkpoint():
    from regard.training.resume import load_optimizer, optimizer_tensors

    runs = []
    for broken in (False, True):
        model = small()
        optimizer = build_muon(model, SETTINGS)
        losses = []
        for step in range(6):
            if broken and step == 3:
                tensors = {name: value.clone() for name, value in optimizer_tensors(model, optimizer).items()}
                optimizer = build_muon(model, SETTINGS)
                load_optimizer(model, optimizer, tensors)
            optimizer.zero_grad()
            logits = model(torch.tensor([[3, 4, 5]]), torch.tensor([[2, 6, 7]])).logits
            loss = nn.functional.cross_entropy(logits[0], torch.tensor([6, 7, 3]))
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        runs.append((losses, [p.detach().clone() for p in model.parameters()]))
    assert runs[0][0][-1] < runs[0][0][0]
    assert runs[0][0] == runs[1][0]
    assert all(torch.equal(a, b) for a, b in zip(runs[0][1], runs[1][1], strict=True))


def test_few_matrices_at_a_time_move_as_all_together(monkeypatch):
    moved = []
    for together in (1, 1 << 25):
        monkeypatch.setattr("regard.training.muon.TOGETHER", together)
        model = small()
        torch.manual_seed(2)
        for p in model.parameters():
            p.grad = torch.randn_like(p)
        build_muon(model, SETTINGS).step()
        moved.append([p.detach() for p in model.parameters()])
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(*moved, strict=True))
