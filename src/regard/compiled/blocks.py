"""A stack of blocks in compiled code: the fast twin of `regard.layers.stack` where rows are few.

Rows are free: each has its own number of keys, named by slots of a cache, so sentences of all lengths, beams with a common
past, prompts and encoders are the same code, without padding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from regard.compiled.kernels import Floats, Ints, activate, attend, jit, normalise, turn
from regard.compiled.products import linear


class Form(NamedTuple):
    """What a stack is besides its numbers. activation: its number in KINDS."""

    heads: int
    groups: int
    width: int
    scale: float
    eps: float
    embed_scale: float
    embed_eps: float
    activation: int
    gated: bool
    post: bool
    rms: bool
    cross: bool
    last: bool
    embed_norm: bool
    turns: bool


class Weights(NamedTuple):
    """Those of all layers, one upon the other: matrices Float[L P in PANEL] as `packed`, biases as `filled`, norms
    Float[L 2 D] (gain, shift). tokens: Float[V D]. k, v: of the memory."""

    tokens: Floats
    embed_norm: Floats
    norm: Floats
    qkv: Floats
    qkv_bias: Floats
    output: Floats
    output_bias: Floats
    cross_norm: Floats
    q: Floats
    q_bias: Floats
    k: Floats
    k_bias: Floats
    v: Floats
    v_bias: Floats
    cross_output: Floats
    cross_output_bias: Floats
    inner_norm: Floats
    expand: Floats
    expand_bias: Floats
    contract: Floats
    contract_bias: Floats
    last_norm: Floats


class Places(NamedTuple):
    """For each row: id and position of its token, the slot its keys and values go to, the slots Int[R K] that it sees and
    their number, and the first and the number of the memory's slots that it sees."""

    token: Ints
    position: Ints
    slot: Ints
    past: Ints
    seen: Ints
    first: Ints
    length: Ints


class Caches(NamedTuple):
    """Keys and values Float[L slots G·d], and those of the memory."""

    keys: Floats
    values: Floats
    across_keys: Floats
    across_values: Floats


class Tables(NamedTuple):
    """What is added to a token at each position, Float[P D], and the cosines and sines by which its keys are turned."""

    added: Floats
    cosine: Floats
    sine: Floats


@jit
def feedforward(x: Floats, rows: int, weights: Weights, layer: int, form: Form, h: Floats, y: Floats) -> None:
    """The feed-forward of a layer: x -> y; h: Float[R F], room for what is between."""
    linear(x, rows, weights.expand[layer], weights.expand_bias[layer], h)
    size = weights.contract.shape[2]
    for r in range(rows):
        for i in range(size):
            h[r, i] = activate(h[r, i], form.activation)
            if form.gated:
                h[r, i] *= h[r, size + i]
    linear(h, rows, weights.contract[layer], weights.contract_bias[layer], y)


@jit
def embed(rows: int, weights: Weights, tables: Tables, form: Form, at: Places, x: Floats) -> None:
    """The vectors x of the tokens."""
    scale = np.float32(form.embed_scale)
    for r in range(rows):
        for i in range(x.shape[1]):
            x[r, i] = weights.tokens[at.token[r], i] * scale + tables.added[at.position[r], i]
    if form.embed_norm:
        normalise(x, rows, weights.embed_norm, form.embed_eps, form.rms, x)


@jit
def self_attention(
    x: Floats, rows: int, weights: Weights, layer: int, form: Form, tables: Tables, at: Places, caches: Caches, y: Floats
) -> None:
    """Self-attention of a layer, x -> y; the cache takes the rows' keys and values first, then all look."""
    inside, shared = form.heads * form.width, form.groups * form.width
    qkv = np.empty((rows, inside + 2 * shared), np.float32)
    linear(x, rows, weights.qkv[layer], weights.qkv_bias[layer], qkv)
    keys, values = caches.keys[layer], caches.values[layer]
    for r in range(rows):
        if form.turns:
            turn(qkv, r, 0, form.heads, form.width, (tables.cosine, tables.sine), at.position[r])
            turn(qkv, r, inside, form.groups, form.width, (tables.cosine, tables.sine), at.position[r])
        for i in range(shared):
            keys[at.slot[r], i] = qkv[r, inside + i]
            values[at.slot[r], i] = qkv[r, inside + shared + i]
    found = np.empty((rows, inside), np.float32)
    slots, columns = at.past.ravel(), at.past.shape[1]
    for r in range(rows):
        attend(qkv, r, slots, r * columns, at.seen[r], keys, values, form, found)
    linear(found, rows, weights.output[layer], weights.output_bias[layer], y)


@jit
def cross_attention(
    x: Floats, rows: int, weights: Weights, layer: int, form: Form, at: Places, caches: Caches, y: Floats
) -> None:
    """Attention of a layer to the memory, x -> y."""
    inside = form.heads * form.width
    q, found = np.empty((rows, inside), np.float32), np.empty((rows, inside), np.float32)
    linear(x, rows, weights.q[layer], weights.q_bias[layer], q)
    keys, values = caches.across_keys[layer], caches.across_values[layer]
    slots = np.arange(len(keys)).astype(np.int32)
    for r in range(rows):
        attend(q, r, slots, at.first[r], at.length[r], keys, values, form, found)
    linear(found, rows, weights.cross_output[layer], weights.cross_output_bias[layer], y)


@jit
def add(x: Floats, y: Floats, rows: int) -> None:
    """x += y, of the first rows."""
    for r in range(rows):
        for i in range(x.shape[1]):
            x[r, i] += y[r, i]


@jit
def run(rows: int, weights: Weights, tables: Tables, form: Form, at: Places, caches: Caches, x: Floats) -> None:
    """The rows' tokens through embeddings and blocks: hidden vectors x Float[R D]. All rows' keys and values are in the
    cache before any row looks, so rows may be beams, sentences, or the tokens of a prompt."""
    embed(rows, weights, tables, form, at, x)
    y, z = np.empty_like(x), np.empty_like(x)
    h = np.empty((rows, weights.expand_bias.shape[1]), np.float32)
    for layer in range(len(weights.qkv)):
        if form.post:
            self_attention(x, rows, weights, layer, form, tables, at, caches, y)
            add(x, y, rows)
            normalise(x, rows, weights.norm[layer], form.eps, form.rms, x)
            if form.cross:
                cross_attention(x, rows, weights, layer, form, at, caches, y)
                add(x, y, rows)
                normalise(x, rows, weights.cross_norm[layer], form.eps, form.rms, x)
            feedforward(x, rows, weights, layer, form, h, y)
            add(x, y, rows)
            normalise(x, rows, weights.inner_norm[layer], form.eps, form.rms, x)
        else:
            normalise(x, rows, weights.norm[layer], form.eps, form.rms, z)
            self_attention(z, rows, weights, layer, form, tables, at, caches, y)
            add(x, y, rows)
            if form.cross:
                normalise(x, rows, weights.cross_norm[layer], form.eps, form.rms, z)
                cross_attention(z, rows, weights, layer, form, at, caches, y)
                add(x, y, rows)
            normalise(x, rows, weights.inner_norm[layer], form.eps, form.rms, z)
            feedforward(z, rows, weights, layer, form, h, y)
            add(x, y, rows)
    if form.last:
        normalise(x, rows, weights.last_norm, form.eps, form.rms, x)
