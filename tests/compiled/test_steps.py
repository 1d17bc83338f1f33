"""Rows that are gone on with token by token."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("numba")

from regard.compiled.twin import Compiled
from regard.decoding.continuation import Continuation
from regard.decoding.options import Search
from regard.inspection import tape
from regard.layout import Layout

PROMPTS = [[5, 6, 7], [4], [9, 8, 7, 6, 5]]


def test_logits_are_those_of_the_model(build: Any) -> None:
    model = build("llama", num_kv_heads=2)
    steps, rows = Compiled.of(model).steps(PROMPTS, 80), [list(one) for one in PROMPTS]
    token = torch.zeros(3, 1, dtype=torch.long)
    for step in range(60):
        if step == 20:
            steps.keep(torch.tensor([2, 0]))
            rows, token = [rows[2], rows[0]], token[[2, 0]]
        logits = steps.step(token)
        if step in (0, 1, 19, 20, 59):
            with torch.inference_mode():
                for row, one in zip(logits, rows, strict=True):
                    want = model.forward(torch.tensor([one]), layout=Layout.unpadded(len(one))).logits[0, -1]
                    torch.testing.assert_close(row, want, rtol=1e-4, atol=1e-4)
        token = logits.argmax(1, keepdim=True)
        for one, (number,) in zip(rows, token.tolist(), strict=True):
            one.append(number)


@pytest.mark.parametrize("options", [Search(num_beams=1, max_length=20), Search(sample=True, top_k=5, seed=3, max_length=9)])
def test_prompts_are_gone_on_with_alike(build: Any, options: Search) -> None:
    model = build("gpt2", max_positions=16)
    slow = list(Continuation(model, PROMPTS, options, [2]))
    model.compiled = Compiled.of(model)
    running = Continuation(model, PROMPTS, options, [2])
    fast = list(running)
    assert running.fast
    assert [[one[:2] for one in step] for step in fast] == [[one[:2] for one in step] for step in slow]
    assert [one[2] for step in fast for one in step] == pytest.approx([one[2] for step in slow for one in step], abs=1e-5)


def test_whoever_looks_on_sees_all(build: Any) -> None:
    model = build("gpt2")
    model.compiled = Compiled.of(model)
    with tape.record(model) as seen:
        running = Continuation(model, PROMPTS[:1], Search(num_beams=1, max_length=2), [])
        list(running)
    assert not running.fast
    assert seen.names
