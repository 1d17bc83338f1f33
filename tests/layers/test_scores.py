from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from regard.layers.masks import Causal, Everything, Lowered, lower, lower_cross
from regard.layers.scores import Additive, Concat, Dot, General, Location
from regard.layers.state import Memory
from regard.layout import Layout

SCORES = [Additive(), Additive(3), Concat(), Dot(), Dot(scaled=True), General(), Location(9)]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def score(module: torch.nn.Module, its: object, q: Tensor, s: Tensor, place: int) -> float:
    """One score by the papers' formulas: a query against one state of the memory at its position."""
    module.requires_grad_(False)
    match its:
        case Additive() | Concat():
            both = module.query.weight @ q + module.query.bias + module.key.weight @ s
            return sum(float(v) * math.tanh(float(x)) for v, x in zip(module.score.weight[0], both, strict=True))
        case Dot(scaled):
            return float(q @ s) / (math.sqrt(len(q)) if scaled else 1.0)
        case General():
            return float(q @ module.key.weight @ s)
        case Location():
            return float(module.score.weight[place] @ q + module.score.bias[place])
    raise AssertionError(its)


@pytest.mark.parametrize("its", SCORES, ids=str)
@pytest.mark.parametrize("layout", [Layout.unpadded(5), Layout.padded([5, 2]), Layout.padded([3, 5], 6, left=True)])
def test_weights_are_the_softmax_of_the_published_score(its, layout):
    torch.manual_seed(0)
    module = its.build(4, 0.0).double()
    memory, q = Memory(random(2, layout.length, 4), layout), random(2, 1, 3, 4)
    mask, v = lower_cross(Layout.unpadded(3), layout), memory.states[:, None]
    keys = module.keys(memory)
    weights, result = module.explain(q, keys, mask), module(q, keys, v, mask)
    for b in range(2):
        real = layout.real.expand(2, -1)[b].nonzero().flatten().tolist()
        for i in range(3):
            odds = {j: math.exp(score(module, its, q[b, 0, i], memory.states[b, j], place)) for place, j in enumerate(real)}
            want = [odds.get(j, 0.0) / sum(odds.values()) for j in range(layout.length)]
            torch.testing.assert_close(weights[b, 0, i], torch.tensor(want).double(), rtol=0, atol=1e-7)
    torch.testing.assert_close(result, weights @ v, rtol=0, atol=1e-12)


@pytest.mark.parametrize("its", SCORES, ids=str)
def test_s_mask_08_nan_at_padding_stays_there(its):
    """S-MASK-08, with gradients."""
    module = its.build(4, 0.0).double()
    layout, states, results = Layout.padded([2], 4), random(1, 4, 4), []
    for filler in (math.nan, 0.0):
        states = states.masked_fill(~layout.real[..., None], filler)
        q = random(1, 1, 3, 4).requires_grad_()
        keys = module.keys(Memory(states, layout))
        result = module(q, keys, states[:, None], lower_cross(Layout.unpadded(3), layout))
        result.sum().backward()
        results.append(torch.cat([result.detach(), q.grad]))
    assert results[0].isfinite().all()
    assert torch.equal(*results)


def test_s_mask_01_a_query_that_sees_nothing():
    module = Additive().build(4, 0.0).double()
    layout = Layout.padded([2], 4, left=True)
    q, k = random(1, 2, 4, 4), random(1, 2, 4, 4).requires_grad_()
    result = module(q, k, k, lower(Causal(), layout, layout))
    result.square().sum().backward()
    assert (result[:, :, :2] == 0).all()
    assert k.grad.isfinite().all()


def test_heads_groups_and_bias():
    module = Additive().build(4, 0.0).double()
    q, k, v, bias = random(2, 4, 3, 4), random(2, 2, 5, 4), random(2, 2, 5, 6), random(2, 4, 3, 5)
    whole = Layout.unpadded(5)
    mask = lower(Everything(), whole, whole)
    grouped = module(q, k, v, mask, bias)
    rows = torch.tensor([0, 0, 1, 1])
    torch.testing.assert_close(grouped, module(q, k[:, rows], v[:, rows], mask, bias))
    closed = bias.masked_fill(torch.tensor([True, False, False, False, False]), -math.inf)
    assert (module.explain(q, k, mask, closed)[..., 0] == 0).all()


def test_location_refuses_what_is_longer_than_it_reaches():
    module = Location(4).build(6, 0.0)
    assert module.keys(Memory(torch.zeros(2, 4, 3), Layout.unpadded(4))).shape == (2, 1, 4, 1)
    with pytest.raises(ValueError, match=r"5 tokens.*4 positions"):
        module.keys(Memory(torch.zeros(2, 5, 3), Layout.unpadded(5)))


def test_location_asks_with_the_token_and_looks_at_nothing():
    assert [its.reads_token for its in SCORES] == [False] * 6 + [True]
    module, q = Location(9).build(4, 0.0).double(), random(1, 1, 2, 4)
    one, other = (module.explain(q, module.keys(Memory(s, Layout.unpadded(3))), Lowered()) for s in random(2, 1, 3, 4))
    assert torch.equal(one, other)


def test_dropout_falls_on_weights_in_training():
    module = Additive().build(4, 0.5)
    q, k = torch.randn(2, 1, 1, 3, 4)
    assert not torch.equal(module(q, k, k, Lowered()), module(q, k, k, Lowered()))
    assert torch.equal(module.eval()(q, k, k, Lowered()), module(q, k, k, Lowered()))
