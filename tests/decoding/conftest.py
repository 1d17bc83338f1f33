"""Models whose next-token probabilities are a table, and a beam search without cache or batch to compare with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from regard.decoding import Hypothesis, Search
from regard.decoding.search import search
from regard.layers.state import Memory
from regard.layout import Layout

BOS, EOS = 2, 3
Rule = Callable[[tuple[int, ...], tuple[int, ...]], dict[int, float]]


class TableState:
    """What each row has read, and each sentence's source."""

    def __init__(self, sources: list[tuple[int, ...]] | None) -> None:
        self.sources, self.length = sources, 0
        self.rows: list[tuple[int, ...]] = [] if sources is None else [() for _ in sources]
        self.sentences = len(self.rows)

    def select(self, rows: Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]

    def keep(self, sentences: Tensor) -> None:
        beams = len(self.rows) // self.sentences
        kept = sentences.tolist()
        self.rows = [self.rows[s * beams + b] for s in kept for b in range(beams)]
        self.sources = None if self.sources is None else [self.sources[s] for s in kept]
        self.sentences = len(kept)

    def rewind(self, length: int) -> None:
        raise TypeError("not here")


class Table(nn.Module):
    """`rule(source, tokens so far)` gives the probability of each next token; those it does not name have none."""

    def __init__(self, rule: Rule, vocab_size: int, limit: int | None = None, encoder: bool = True) -> None:
        super().__init__()
        self.rule, self.vocab_size = rule, vocab_size
        self.encoder = SimpleNamespace(limit=None) if encoder else None
        self.decoder = SimpleNamespace(limit=limit)
        self.device = torch.device("cpu")
        self.rows_seen: list[int] = []

    def encode(self, inputs: Tensor, layout: Layout, segments: Tensor | None = None) -> Memory:
        return Memory(inputs[..., None].double(), layout)

    def start(self, memory: Memory | None, room: int) -> TableState:
        if memory is None:
            return TableState(None)
        real = memory.layout.real.expand(len(memory.states), -1)
        return TableState([tuple(s[r, 0].long().tolist()) for s, r in zip(memory.states, real, strict=True)])

    def step(self, tokens: Tensor, state: TableState, layout: Layout | None = None) -> Tensor:
        if state.sources is None and not state.rows:
            state.rows = [() for _ in tokens]
            state.sentences = len(tokens)
        assert len(tokens) == len(state.rows)
        self.rows_seen.append(len(tokens))
        state.length += tokens.shape[1]
        real = torch.ones_like(tokens, dtype=torch.bool) if layout is None else layout.real.expand(len(tokens), -1)
        state.rows = [r + tuple(t[m].tolist()) for r, t, m in zip(state.rows, tokens, real, strict=True)]
        result = torch.full((len(tokens), self.vocab_size), -math.inf, dtype=torch.float64)
        for row, read in enumerate(state.rows):
            if state.sources is None:
                probabilities = self.rule((), read)
            else:
                probabilities = self.rule(state.sources[row * len(state.sources) // len(state.rows)], read[1:])
            for token, p in probabilities.items():
                result[row, token] = math.log(p) if p > 0 else -math.inf
        return result + 1.5  # logits are log-probabilities up to a constant

    def find(self, sources: Sequence[Sequence[int]], options: Search, **more) -> list[list[Hypothesis]]:
        lengths = [len(source) for source in sources]
        left = self.encoder is None
        ids = torch.zeros(len(sources), max(lengths), dtype=torch.long)
        for row, source in enumerate(sources):
            start = ids.shape[1] - len(source) if left else 0
            ids[row, start : start + len(source)] = torch.tensor(source)
        return search(self, ids, Layout.padded(lengths, left=left), options, BOS, EOS, **more)


def reference(log_probs: Callable[[tuple[int, ...]], Sequence[float]], its: Search, limit: int) -> list[tuple]:
    """Beam search on one sentence, everything recomputed: [(score, ids with the end mark, log-probability)], best first."""
    running, pool = [(0.0, ())], []
    for step in range(1, limit + 1):
        candidates = []
        for total, ids in running:
            for token, p in enumerate(log_probs(ids)):
                if p > -math.inf and not (token == EOS and step <= its.min_length):
                    candidates.append((total + p, (*ids, token)))
        candidates.sort(key=lambda c: -c[0])
        candidates = candidates[: 2 * its.num_beams]
        over = [c for c in candidates[: its.num_beams] if c[1][-1] == EOS or step == limit]
        pool += [(total / its.penalty(step), ids, total) for total, ids in over]
        pool = sorted(pool, key=lambda c: -c[0])[: its.num_beams]
        running = [c for c in candidates if c[1][-1] != EOS and step < limit][: its.num_beams]
        if not running:
            break
        if len(pool) == its.num_beams:
            far = limit if its.stopping == "exhaustive" and its.length_penalty > 0 else step
            if its.stopping == "first" or running[0][0] / its.penalty(far) <= pool[-1][0]:
                break
    return pool[: its.num_return]


@pytest.fixture(scope="session")
def table() -> type[Table]:
    return Table


@pytest.fixture(scope="session")
def slow_beams() -> Callable:
    return reference


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)
