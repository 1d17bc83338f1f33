"""Greedy and beam search in compiled code: a group of sentences is answered in one call, with nothing but arithmetic between
two steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from regard.compiled.blocks import Caches, Form, Places, Tables, Weights, run
from regard.compiled.choice import Aim, Best, Found, Head, Rows, advance, choose, collect, over
from regard.compiled.kernels import Floats, Ints, jit
from regard.compiled.products import linear


class Group(NamedTuple):
    """Prompts of decoders Int[S P] and their lengths, the most tokens of each answer, and for each sentence where its
    memory begins and how long it is."""

    prompts: Ints
    lengths: Ints
    limits: Ints
    first: Ints
    source: Ints


class Half(NamedTuple):
    """A stack of the model: an encoder or a decoder."""

    weights: Weights
    tables: Tables
    form: Form


def encode(half: Half, sources: Ints, lengths: Ints) -> Floats:
    """Sources, one after another in Int[tokens], as hidden vectors Float[tokens D]."""
    count, longest = len(sources), int(lengths.max())
    row = np.arange(count, dtype=np.int32)
    begin, length = ((of.repeat(lengths)).astype(np.int32) for of in (lengths.cumsum() - lengths, lengths))
    past = (begin[:, None] + np.arange(longest, dtype=np.int32)).astype(np.int32)
    x = np.empty((count, half.weights.tokens.shape[1]), np.float32)
    places = Places(sources, row - begin, row, past, length, row, length)
    run(count, half.weights, half.tables, half.form, places, caches_of(half, count, 0), x)
    return x


@jit
def caches_of(half: Half, slots: int, memory: int) -> Caches:
    """Empty ones."""
    layers, width = len(half.weights.qkv), half.form.groups * half.form.width
    own, across = (layers, slots, width), (layers, memory, width)
    return Caches(
        np.empty(own, np.float32), np.empty(own, np.float32), np.empty(across, np.float32), np.empty(across, np.float32)
    )


@jit
def memory_keys_values(half: Half, memory: Floats, caches: Caches) -> None:
    """The memory's keys and values, once for all steps."""
    its = half.weights
    for layer in range(len(its.k)):
        linear(memory, len(memory), its.k[layer], its.k_bias[layer], caches.across_keys[layer])
        linear(memory, len(memory), its.v[layer], its.v_bias[layer], caches.across_values[layer])


@jit
def grown(caches: Caches, slots: int) -> Caches:
    """The same caches with room for so many slots at least."""
    layers, filled, width = caches.keys.shape
    if slots <= filled:
        return caches
    keys = np.empty((layers, max(slots, 2 * filled), width), np.float32)
    values = np.empty_like(keys)
    for layer in range(layers):
        for slot in range(filled):
            for i in range(width):
                keys[layer, slot, i], values[layer, slot, i] = caches.keys[layer, slot, i], caches.values[layer, slot, i]
    return Caches(keys, values, caches.across_keys, caches.across_values)


@jit
def rows_of(count: int, steps: int, columns: int) -> Rows:
    """Room for so many hypotheses."""
    return Rows(
        np.zeros(count, np.int32),
        np.zeros(count, np.float64),
        np.zeros((count, steps), np.int32),
        np.zeros((count, steps), np.float32),
        np.zeros((count, columns), np.int32),
    )


@jit
def places_of(tokens: int, columns: int) -> Places:
    """Room for the places of so many tokens, each of which sees so many slots at most."""
    return Places(
        np.zeros(tokens, np.int32),
        np.zeros(tokens, np.int32),
        np.arange(tokens).astype(np.int32),
        np.zeros((tokens, columns), np.int32),
        np.zeros(tokens, np.int32),
        np.zeros(tokens, np.int32),
        np.zeros(tokens, np.int32),
    )


@jit
def prompt_places(group: Group, rows: Rows) -> Places:
    """Where the tokens of the prompts stand, those of a sentence after those of the one before."""
    at = places_of(group.lengths.sum(), group.prompts.shape[1])
    token = 0
    for s in range(len(group.lengths)):
        start, rows.sentence[s] = token, s
        for i in range(group.lengths[s]):
            at.token[token], at.position[token], at.seen[token] = group.prompts[s, i], i, i + 1
            at.first[token], at.length[token] = group.first[s], group.source[s]
            rows.past[s, i] = token
            for j in range(i + 1):
                at.past[token, j] = start + j
            token += 1
    return at


@jit
def step_places(group: Group, rows: Rows, count: int, step: int, used: int) -> Places:
    """Where the tokens stand that the rows have just written; their keys and values go to the slots from `used` on."""
    first, source = np.empty(count, np.int32), np.empty(count, np.int32)
    position, seen = np.empty(count, np.int32), np.empty(count, np.int32)
    for r in range(count):
        s = rows.sentence[r]
        position[r] = group.lengths[s] + step
        seen[r] = position[r] + 1
        rows.past[r, position[r]] = used + r
        first[r], source[r] = group.first[s], group.source[s]
    slot = np.arange(used, used + count).astype(np.int32)
    return Places(rows.ids[:count, step].copy(), position, slot, rows.past, seen, first, source)


@jit
def step_sentences(
    rows: Rows, count: int, logits: Floats, head: Head, group: Group, step: int, aim: Aim, new: Rows, found: Found
) -> int:
    """One choice for all sentences: what is finished goes to `found`, what goes on to `new`: how many; -1 if a logit is
    NaN."""
    width = 2 * aim.beams
    best = Best(np.empty(width), np.empty(width, np.int32), np.empty(width, np.int32), np.empty(width))
    kept, end = 0, 0
    while end < count:
        first, sentence = end, rows.sentence[end]
        while end < count and rows.sentence[end] == sentence:
            end += 1
        options = choose(rows, first, end, logits, head, step, aim, best)
        if options < 0:
            return -1
        due, goes = group.limits[sentence] == step + 1, 0
        for place in range(options):
            if due or best.token[place] == aim.eos:
                if place < aim.beams:
                    collect(best, place, rows, step, aim, found, sentence)
            elif goes < aim.beams:
                advance(rows, best, place, new, kept + goes, step, group.lengths[sentence] + step)
                goes += 1
        if goes and not over(sentence, new.total[kept], step, group.limits[sentence], aim, found):
            kept += goes
    return kept


@jit
def search_group(half: Half, head: Head, group: Group, memory: Floats, aim: Aim, found: Found) -> bool:
    """Search for the answers to a group of sentences with this memory Float[tokens D]; whether all logits were numbers."""
    count, steps, tokens = len(group.lengths), group.limits.max(), group.lengths.sum()
    most, columns = count * aim.beams, group.prompts.shape[1] + steps
    rows, new = rows_of(most, steps, columns), rows_of(most, steps, columns)
    x, hidden = np.empty((max(tokens, most), memory.shape[1]), np.float32), np.empty((most, memory.shape[1]), np.float32)
    logits, caches = np.empty((most, head.size), np.float32), caches_of(half, tokens + 16 * most, len(memory))
    if half.form.cross:
        memory_keys_values(half, memory, caches)
    at, read = prompt_places(group, rows), tokens
    used = tokens
    for step in range(steps):
        run(read, half.weights, half.tables, half.form, at, caches, x)
        last = -1
        for r in range(count):  # of a prompt, its last token
            last += group.lengths[r] if step == 0 else 1
            for i in range(x.shape[1]):
                hidden[r, i] = x[last, i] * np.float32(head.scale)
        linear(hidden, count, head.weight, head.bias, logits)
        count = step_sentences(rows, count, logits, head, group, step, aim, new, found)
        if count <= 0:
            return count == 0
        rows, new = new, rows
        caches = grown(caches, used + count)
        at, read = step_places(group, rows, count, step, used), count
        used += count
    return True
