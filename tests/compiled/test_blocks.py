"""Rows of any origin through all layers in one call, beside the modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("numba")

from regard.compiled.blocks import Caches, Places, run
from regard.compiled.parts import Parts
from regard.layout import Layout

ARGUMENTS: list[tuple[str, dict[str, Any]]] = [
    ("transformer", {}),
    ("transformer", {"placement": "pre", "activation": "gelu"}),
    ("llama", {"num_kv_heads": 2}),
    ("gpt2", {}),
]


def caches(parts: Parts, slots: int, memory: int = 0) -> Caches:
    width, layers = parts.form.groups * parts.form.width, len(parts.weights.qkv)
    own, across = np.full((layers, slots, width), np.nan, np.float32), np.empty((layers, memory, width), np.float32)
    return Caches(own, own.copy(), across, across.copy())


def ints(values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def test_an_encoder_reads_sentences_of_all_lengths_at_once(build: Any) -> None:
    model = build()
    parts, lengths = Parts(model.encoder), [3, 1, 6]
    tokens = torch.randint(3, 23, (10,), generator=torch.Generator().manual_seed(1))
    first = np.repeat(ints([0, 3, 4]), lengths)
    past = first[:, None] + np.arange(6, dtype=np.int32)
    at = Places(
        ints(tokens.tolist()), np.arange(10) - first, ints(range(10)), past, np.repeat(ints(lengths), lengths), first, first
    )
    x = np.empty((10, 16), np.float32)
    run(10, parts.weights, parts.reach(6), parts.form, Places(*map(ints, at)), caches(parts, 10), x)
    with torch.inference_mode():
        for begin, length in zip([0, 3, 4], lengths, strict=True):
            want = model.encode(tokens[None, begin : begin + length], Layout.unpadded(length)).states[0]
            torch.testing.assert_close(torch.from_numpy(x[begin : begin + length]), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("name", "more"), ARGUMENTS[2:])
def test_a_prompt_and_a_step_after_it(build: Any, name: str, more: dict[str, Any]) -> None:
    """The tokens of a prompt are rows that see one key more each; the keys' slots need be in no order."""
    model = build(name, **more)
    parts, tokens = Parts(model.decoder), torch.tensor([4, 9, 7, 11, 5])
    slot = ints([8, 2, 5, 0, 3])
    held, x = caches(parts, 9), np.empty((5, 16), np.float32)
    past, count, nothing = np.tile(slot, (5, 1)), ints(range(1, 6)), np.zeros(5, np.int32)
    all_ = Places(ints(tokens.tolist()), ints(range(5)), slot, past, count, nothing, nothing)
    for begin, end in [(0, 4), (4, 5)]:
        at = Places(*(np.ascontiguousarray(of[begin:end]) for of in all_))
        run(end - begin, parts.weights, parts.reach(5), parts.form, at, held, x[begin:end])
    with torch.inference_mode():
        want = model.decoder(tokens[None], model.decoder.start(None), Layout.unpadded(5))[0]
    torch.testing.assert_close(torch.from_numpy(x), want, rtol=1e-5, atol=1e-5)


def test_the_memory_is_seen_by_those_it_belongs_to(build: Any) -> None:
    model = build(placement="pre")
    parts, memory = Parts(model.decoder), torch.randn(7, 16, generator=torch.Generator().manual_seed(2))
    held = caches(parts, 2, 7)
    with torch.inference_mode():
        for layer, block in enumerate(model.decoder.blocks):
            k, v = block.cross.kv(memory).chunk(2, -1)
            held.across_keys[layer], held.across_values[layer] = k.numpy(), v.numpy()
        at = Places(*(ints(one) for one in ([5, 6], [0, 0], [0, 1], [[0], [1]], [1, 1], [0, 4], [4, 3])))
        x = np.empty((2, 16), np.float32)
        run(2, parts.weights, parts.reach(1), parts.form, at, held, x)
        for row, (begin, end) in enumerate([(0, 4), (4, 7)]):
            of = type(model.encode(torch.tensor([[3]])))(memory[None, begin:end], Layout.unpadded(end - begin))
            want = model.decoder(torch.tensor([[5 + row]]), model.decoder.start(of), Layout.unpadded(1))[0, 0]
            torch.testing.assert_close(torch.from_numpy(x[row]), want, rtol=1e-5, atol=1e-5)
