"""The quick body of a step gives what the slow one gives, and steps aside for whoever looks on."""

from __future__ import annotations

import pytest
import torch

from regard import models
from regard.inspection import tape
from regard.layers.quick import Quick
from regard.layout import Layout

SMALL = {"vocab_size": 20, "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}
FAMILIES = {
    "transformer": SMALL,
    "pre-norm": SMALL | {"placement": "pre"},
    "t5": SMALL,
    "bart": SMALL,
    "gpt2": SMALL,
    "llama": SMALL | {"num_kv_heads": 2},
}


def built(name: str):
    torch.manual_seed(1)
    family = "transformer" if name == "pre-norm" else name
    model = models.find(family).describe(**FAMILIES[name]).build().eval()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.normal_(0.0, 0.3)
    return model


def answers(model, quick: bool, beams: int = 1) -> torch.Tensor:
    """Logits of five steps, beams reordered on the way."""
    tokens = torch.arange(3)[:, None] + 4
    found = []
    with torch.inference_mode():
        memory = None
        if model.encoder is not None:
            memory = model.encode(torch.arange(15).view(3, 5) + 4, Layout.padded([5, 2, 4]))
        state = model.start(memory, 6)
        if not quick:
            state.quick = None
        for step in range(5):
            found.append(model.step(tokens, state))
            if step == 1 and beams > 1:
                rows = torch.arange(3).repeat_interleave(beams)
                state.select(rows)
                tokens = tokens[rows]
            if step == 3:
                rows = torch.arange(len(tokens)).flip(0) if beams == 1 and memory is None else torch.arange(len(tokens))
                state.select(rows)
            tokens = (tokens + torch.arange(len(tokens))[:, None]) % 20
    return torch.cat(found)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("name", FAMILIES)
def test_both_bodies_give_the_same(name, beams, monkeypatch) -> None:
    model, ran = built(name), []
    run = Quick.run
    monkeypatch.setattr(Quick, "run", lambda *given: ran.append(1) or run(*given))
    quick = answers(model, True, beams)
    assert len(ran) == 5
    torch.testing.assert_close(quick, answers(model, False, beams), rtol=1e-5, atol=1e-5)
    assert len(ran) == 5


def test_whoever_looks_on_sees_all() -> None:
    model = built("transformer")
    with torch.inference_mode():
        memory = model.encode(torch.arange(5)[None] + 4)
        state = model.start(memory, 4)
        model.step(torch.tensor([[4]]), state)
        with tape.record(model) as seen:
            model.step(torch.tensor([[5]]), state)
    assert len(seen.names) == 4


def test_padding_among_the_keys_and_training_take_the_slow_way() -> None:
    model = built("gpt2")
    with torch.inference_mode():
        state = model.start(None, 6)
        layout = Layout.padded([3, 1], left=True)
        model.step(torch.tensor([[4, 5, 6], [0, 0, 7]]), state, layout)
        got = model.step(torch.tensor([[8], [9]]), state, layout.next())
        alone = model.start(None, 6)
        model.step(torch.tensor([[7]]), alone)
        torch.testing.assert_close(got[1:], model.step(torch.tensor([[9]]), alone), rtol=1e-5, atol=1e-5)
        assert not model.start(None, 2).quick.fits(torch.zeros(1, 2, 16), None)
        model.train()
        assert not model.start(None, 2).quick.fits(torch.zeros(1, 1, 16), None)


def test_other_parts_are_left_to_the_slow_body() -> None:
    model = models.find("mixtral").describe(**SMALL, num_kv_heads=2).build()
    assert Quick.of(model.decoder) is None
