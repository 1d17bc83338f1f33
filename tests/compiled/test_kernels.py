"""Compiled arithmetic beside PyTorch's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

pytest.importorskip("numba")

from regard.compiled.blocks import Form
from regard.compiled.kernels import KINDS, PLACE, activate, attend, exponential, normalise, turn
from regard.layers.feedforward import ACTIVATIONS
from regard.layers.positions import turned


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_the_exponential_is_right_to_the_last_digits() -> None:
    for x in np.linspace(-86, 87, 4001, dtype=np.float32):
        assert exponential(x) == pytest.approx(math.exp(float(x)), rel=3e-7)
    assert 0 <= exponential(np.float32(-np.inf)) < 1e-37


@pytest.mark.parametrize("rms", [False, True])
def test_norms(rms: bool) -> None:
    x, norm, y = drawn(3, 12) * 5 + 2, drawn(2, 12), np.empty((3, 12), np.float32)
    if rms:
        norm[1] = 0
    normalise(x, 3, norm, 1e-5, rms, y)
    given, (gain, shift) = torch.from_numpy(x), map(torch.from_numpy, norm)
    want = F.rms_norm(given, (12,), gain, 1e-5) if rms else F.layer_norm(given, (12,), gain, shift, 1e-5)
    torch.testing.assert_close(torch.from_numpy(y), want)
    normalise(x, 3, norm, 1e-5, rms, x)
    assert (x == y).all(), "in place too"


@pytest.mark.parametrize("name", KINDS)
def test_activations(name: str) -> None:
    x = np.linspace(-9, 9, 101, dtype=np.float32)
    found = torch.tensor([activate(one, KINDS.index(name)) for one in x])
    torch.testing.assert_close(found, ACTIVATIONS[name](torch.from_numpy(x)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 4, 9])
def test_attention_of_a_row_over_slots(groups: int, count: int) -> None:
    heads, width = 4, 6
    form = Form(heads, groups, width, 0.3, 1e-5, 1.0, 0.0, 0, *[False] * 7)
    q, keys, values = drawn(3, heads * width + 5), drawn(20, groups * width), drawn(20, groups * width)
    slots, y = np.random.default_rng(1).permutation(20).astype(np.int32), np.zeros((3, heads * width), np.float32)
    attend(q, 1, slots, 2, count, keys, values, form, y)
    k, v = (torch.from_numpy(of[slots[2 : 2 + count]]).view(count, groups, width).transpose(0, 1) for of in (keys, values))
    asked = torch.from_numpy(q[1, : heads * width]).view(heads, 1, width)
    want = F.scaled_dot_product_attention(asked[None], k[None], v[None], scale=0.3, enable_gqa=True)
    torch.testing.assert_close(torch.from_numpy(y[1]), want.flatten())
    assert not y[[0, 2]].any()


@pytest.mark.parametrize("width", [4, 6])
def test_turning(width: int) -> None:
    x, angle = drawn(2, 2 + 3 * 6), np.tile(drawn(4, width // 2), 2)
    given, angles = torch.from_numpy(x.copy()), (np.cos(angle), np.sin(angle))
    want = turned(given[1, 2:].view(1, 3, 1, 6), *(torch.from_numpy(one[3]) for one in angles))
    turn(x, 1, 2, 3, 6, angles, 3)
    torch.testing.assert_close(torch.from_numpy(x[1, 2:]), want.flatten())
    assert (x[0] == given[0].numpy()).all()
    assert (x[1, :2] == given[1, :2].numpy()).all()


def test_what_is_compiled_is_kept_under_the_name_of_its_source() -> None:
    assert attend._cache.cache_path.startswith(PLACE)
