"""Arithmetic in compiled code, by numba, in single precision: norms, activations, attention of a row.

A step of a small model takes PyTorch some thirty calls a layer, each of which lasts longer than what it computes. Compiled
code has no calls to pay for, so plain loops are enough for all but products, which are in `products`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from regard.layers.feedforward import ACTIVATIONS
from regard.text.download import cache_root

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

KINDS = tuple(ACTIVATIONS)
"""Activations by their numbers."""
RELU, GELU, GELU_TANH, SILU, TANH = range(len(KINDS))
ORDER = {"reassoc", "contract", "nsz", "arcp"}
"""Freedoms of the compiler: NaN and infinity keep their meaning, the order of sums is its own."""


_SOURCES = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
PLACE = str(cache_root().parent / "compiled" / hashlib.sha256(_SOURCES).hexdigest()[:16])
"""Where compiled code is kept."""


def jit(function: Callable[..., Any], free: set[str] = ORDER, **more: Any) -> Any:
    """Compile a function at its first call, or load what was compiled before. numba looks at a function's own file alone to
    tell whether it has changed, so what it keeps stands in a folder named after all files of this one."""
    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, PLACE  # pyright: ignore
    try:
        return numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=free, **more)(function)
    finally:
        numba.config.CACHE_DIR = before  # pyright: ignore


@jit
def exponential(x: np.float32) -> np.float32:
    """e^x to the last digits of single precision, in steps that the compiler makes of eight numbers at once."""
    x = min(max(x, np.float32(-87.0)), np.float32(88.0))
    biased = np.int32(x * np.float32(1.44269504088896341) + np.float32(127.5))  # positive, so that cutting rounds down
    n = np.float32(biased) - np.float32(127)
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    return (p * r * r + r + np.float32(1)) * np.int32(biased << 23).view(np.float32)


@jit
def normalise(x: Floats, rows: int, norm: Floats, eps: float, rms: bool, y: Floats) -> None:
    """Each row of mean 0 and variance 1, times gain, plus shift; rms: of mean square 1, times gain."""
    width = x.shape[1]
    for r in range(rows):
        mean = np.float32(0)
        if not rms:
            for i in range(width):
                mean += x[r, i]
            mean /= np.float32(width)
        square = np.float32(0)
        for i in range(width):
            square += (x[r, i] - mean) * (x[r, i] - mean)
        factor = np.float32(1.0 / math.sqrt(square / width + eps))
        for i in range(width):
            y[r, i] = (x[r, i] - mean) * factor * norm[0, i] + norm[1, i]


@jit
def activate(x: np.float32, kind: int) -> np.float32:
    """One number through the activation of that number in KINDS."""
    one, half = np.float32(1), np.float32(0.5)
    if kind == RELU:
        return max(x, np.float32(0))
    if kind == GELU:
        return half * x * (one + np.float32(math.erf(x * np.float32(0.7071067811865476))))
    if kind == GELU_TANH:
        inside = np.float32(0.7978845608028654) * (x + np.float32(0.044715) * x * x * x)
        return half * x * (one + np.float32(math.tanh(inside)))
    if kind == SILU:
        return x / (one + exponential(-x))
    return np.float32(math.tanh(x))


# Inner loops here run over indices that begin with 0: others may be negative for all that the compiler knows, and then count
# from the end as in Python; it would take numbers one by one.


@jit
def scores(q: Floats, slots: Ints, first: int, count: int, keys: Floats, key: int, odds: Floats) -> None:
    """A query q[d] times the keys in `count` slots from `first` on; the keys of its head begin at column `key`."""
    j, zero, width = 0, np.float32(0), len(q)
    end = key + width
    while j + 3 < count:
        k = first + j
        k0, k1 = keys[slots[k], key:end], keys[slots[k + 1], key:end]
        k2, k3 = keys[slots[k + 2], key:end], keys[slots[k + 3], key:end]
        s0, s1, s2, s3 = zero, zero, zero, zero
        for i in range(width):
            s0 += q[i] * k0[i]
            s1 += q[i] * k1[i]
            s2 += q[i] * k2[i]
            s3 += q[i] * k3[i]
        odds[j], odds[j + 1], odds[j + 2], odds[j + 3] = s0, s1, s2, s3
        j += 4
    while j < count:
        k0, s0 = keys[slots[first + j], key:end], zero
        for i in range(width):
            s0 += q[i] * k0[i]
        odds[j] = s0
        j += 1


@jit
def weighted_sum(odds: Floats, slots: Ints, first: int, count: int, values: Floats, value: int, y: Floats) -> None:
    """The sum y[d] of the values in these slots, each times its weight; those of the head begin at column `value`."""
    j, end = 0, value + len(y)
    for i in range(len(y)):
        y[i] = np.float32(0)
    while j + 3 < count:
        k = first + j
        v0, v1 = values[slots[k], value:end], values[slots[k + 1], value:end]
        v2, v3 = values[slots[k + 2], value:end], values[slots[k + 3], value:end]
        w0, w1, w2, w3 = odds[j], odds[j + 1], odds[j + 2], odds[j + 3]
        for i in range(len(y)):
            y[i] += w0 * v0[i] + w1 * v1[i] + w2 * v2[i] + w3 * v3[i]
        j += 4
    while j < count:
        v0, w0 = values[slots[first + j], value:end], odds[j]
        for i in range(len(y)):
            y[i] += w0 * v0[i]
        j += 1


@jit
def softmax(odds: Floats, scale: np.float32) -> None:
    """Softmax of scores times `scale`, in place."""
    top, total = np.float32(-np.inf), np.float32(0)
    for j in range(len(odds)):
        odds[j] *= scale
        top = max(top, odds[j])
    for j in range(len(odds)):
        odds[j] = exponential(odds[j] - top)
        total += odds[j]
    part = np.float32(1) / total
    for j in range(len(odds)):
        odds[j] *= part


@jit
def attend(
    q: Floats, row: int, slots: Ints, first: int, count: int, keys: Floats, values: Floats, form: Any, y: Floats
) -> None:
    """What the heads of one row of queries Float[R H·d] say of the keys and values in `count` slots, from `first` on: a row
    of y Float[R H·d]."""
    share, width, scale = form.heads // form.groups, form.width, np.float32(form.scale)
    odds = np.empty(count, np.float32)
    for h in range(form.heads):
        at, key = h * width, h // share * width
        scores(q[row, at : at + width], slots, first, count, keys, key, odds)
        softmax(odds, scale)
        weighted_sum(odds, slots, first, count, values, key, y[row, at : at + width])


@jit
def turn(x: Floats, row: int, at: int, heads: int, width: int, angles: tuple[Floats, Floats], position: int) -> None:
    """Queries or keys of one row, from column `at` on, each pair (i, i + w/2) of a head's first w numbers by its angle, in
    place. angles: tables of cosines and sines."""
    cosine, sine = angles
    half = cosine.shape[1] // 2
    for h in range(heads):
        for i in range(half):
            left = at + h * width + i
            one, other = x[row, left], x[row, left + half]
            x[row, left] = one * cosine[position, i] - other * sine[position, i]
            x[row, left + half] = other * cosine[position, half + i] + one * sine[position, half + i]
