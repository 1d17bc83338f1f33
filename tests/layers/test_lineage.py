"""Beams that share their sentence's caches read what beams with caches of their own read."""

from __future__ import annotations

import math

import pytest
import torch

from regard import models
from regard.inspection import tape
from regard.layers import lineage
from regard.layers.lineage import Lineage
from regard.layout import Layout

SMALL = {"vocab_size": 20, "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}
FAMILIES = {"transformer": SMALL, "bart": SMALL, "gpt2": SMALL, "llama": SMALL | {"num_kv_heads": 2}}
STEPS, BEAMS, SENTENCES = 12, 3, 4


def built(name: str):
    torch.manual_seed(2)
    model = models.find(name).describe(**FAMILIES.get(name, SMALL)).build().eval().double()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.normal_(0.0, 0.3)
    return model


def answers(model, quick: bool, looking: int = -1):
    """Logits of steps in which beams change places and a sentence leaves; whether caches were shared after each. looking:
    the step at which somebody looks on."""
    draw = torch.Generator().manual_seed(3)
    tokens, left, found, shared = torch.arange(SENTENCES)[:, None] + 4, SENTENCES, [], []
    with torch.inference_mode():
        memory = None
        if model.encoder is None:
            tokens = tokens.repeat(1, 3)  # a prompt
        else:
            memory = model.encode(torch.arange(20).view(4, 5) % 16 + 4, Layout.padded([5, 2, 4, 3]))
        state = model.start(memory, 4)
        if not quick:
            state.quick = None
        for step in range(STEPS):
            if step == looking:
                with tape.record(model):
                    found.append(model.step(tokens, state))
            else:
                found.append(model.step(tokens, state))
            if step == 6:
                left -= 1
                kept = torch.arange(left) + 1
                state.keep(kept)
            width = 1 if step == 0 else BEAMS
            parents = torch.randint(width, (left, BEAMS), generator=draw)
            state.select((torch.arange(left)[:, None] * width + parents).flatten())
            tokens = torch.randint(4, 20, (left * BEAMS, 1), generator=draw)
            shared.append(state.lineage is not None)
    return torch.cat(found), shared


@pytest.mark.parametrize("slack", [1, 4, 1000])
@pytest.mark.parametrize("name", FAMILIES)
def test_shared_caches_give_what_copies_give(name, slack, monkeypatch) -> None:
    monkeypatch.setattr(lineage, "SLACK", slack)
    model = built(name)
    got, shared = answers(model, True)
    wanted, copied = answers(model, False)
    assert all(shared)
    assert not any(copied)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", FAMILIES)
def test_whoever_looks_on_finds_caches_of_each_beam(name) -> None:
    model = built(name)
    got, shared = answers(model, True, looking=5)
    assert shared == [True] * 5 + [False] * (STEPS - 5)
    torch.testing.assert_close(got, answers(model, False)[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["t5", "mistral"])
def test_what_sees_by_distance_keeps_caches_of_each_beam(name) -> None:
    assert not any(answers(built(name), True)[1])


def test_states_are_taken_back_with_the_caches_of_each_beam() -> None:
    model, found = built("gpt2"), []
    for quick in (True, False):
        with torch.inference_mode():
            state = model.start(None, 4)
            if not quick:
                state.quick = None
            model.step(torch.tensor([[4, 5]]), state)
            state.select(torch.tensor([0, 0]))
            for one, two in ((6, 7), (8, 9), (10, 11)):
                model.step(torch.tensor([[one], [two]]), state)
                state.select(torch.tensor([1, 0]))
            assert (state.lineage is not None) == quick
            state.rewind(3)
            assert state.lineage is None
            found.append(model.step(torch.tensor([[12], [13]]), state))
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-10)


def test_columns_without_descendants_go() -> None:
    tree = Lineage(1, 2, torch.zeros(1))
    tree.select(torch.tensor([0, 0]))
    tree.grow()  # columns 2 and 3
    assert tree.seen[0].tolist() == [[0, 0, 0, -math.inf], [0, 0, -math.inf, 0]]
    tree.select(torch.tensor([1, 1]))  # both go on with the second
    tree.grow()
    assert tree.past().tolist() == [[0, 1, 3, 4], [0, 1, 3, 5]]
    assert tree.thin() is None
    tree._kept -= lineage.SLACK
    assert tree.thin().tolist() == [[0, 1, 3, 4, 5]]
    assert tree.past().tolist() == [[0, 1, 2, 3], [0, 1, 2, 4]]
