"""Continuous batching: prompts join those that are being gone on with, and leave when they are done (Yu et al. 2022, Orca).

Unlike there, prompts that join are read in a pass of their own, padded among themselves, and attention needs no splitting:
the layout says where each row's tokens stand, so rows that began at different times share one cache.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decoding.best import first_of
from regard.decoding.constraints import Constraints
from regard.decoding.options import Search
from regard.decoding.sampling import Sampler, draws
from regard.errors import UserError
from regard.layout import Layout

SLACK = 64
"""Columns of a cache that may stand empty in all rows before it is copied without them."""


@dataclass
class _Row:
    """number: as told to whoever reads along. most: tokens to write. uniform: a draw a token, when sampling."""

    number: int
    length: int
    most: int
    uniform: Tensor | None
    written: list[int]


class Flow:
    """Rows of one model and one search (greedy or sampling), each at its own place. ends: ids that end a row.

    `add` takes prompts, `step` writes a token in every row, `close` ends a row early. What a row writes does not depend on
    the others, but for rounding in the last place of the model's arithmetic.
    """

    def __init__(self, model: Any, options: Search, ends: Collection[int]) -> None:
        self.model, self.options, self.ends = model, options, sorted(ends)
        self.constraints = Constraints(options, self.ends[0] if self.ends else 0, None, model.device)
        self.rows: list[_Row] = []
        self.state: Any = None
        self._new: list[tuple[_Row, list[int]]] = []
        self._closed: set[int] = set()
        self._count = 0

    @property
    def running(self) -> int:
        """Rows that go on."""
        return len(self.rows) + len(self._new)

    @property
    def columns(self) -> int:
        """Tokens of the longest row, or columns of the cache: what a further row costs at least."""
        return max(0 if self.state is None else self.state.length, max((len(ids) for _, ids in self._new), default=0))

    @property
    def joins(self) -> bool:
        """Whether further prompts may be added now: always, unless the model's state cannot take others in."""
        return self.running == 0 or self.state is None or hasattr(self.state, "join")

    def add(self, prompts: Sequence[Sequence[int]], names: Sequence[tuple[int, int]], most: Sequence[int]) -> range:
        """Go on with these ids from the next step; their rows are numbered on, and the numbers given. names: of each row,
        for its draws. most: tokens to write at most, by row. UserError: a prompt is longer than the model reads."""
        rows = range(self._count, self._count + len(prompts))
        counts = [self._room(len(ids), count) for ids, count in zip(prompts, most)]
        sampled = self.options.method == "sample"
        uniform = draws(self.options.seed, names, counts) if sampled else [None] * len(prompts)
        for number, ids, count, draw in zip(rows, prompts, counts, uniform):
            self._new.append((_Row(number, len(ids), count, draw, []), list(ids)))
        self._count += len(prompts)
        return rows

    def close(self, row: int) -> None:
        """Nothing more is wanted in this row."""
        self._closed.add(row)

    def ended(self, row: int) -> bool:
        """Whether this row, which was running before the last step, will leave."""
        return row in self._closed

    @torch.inference_mode()
    def step(self) -> list[tuple[int, int, float]]:
        """A token in every row that goes on: (row, token, its log-probability). Nothing once there is no row."""
        logits = []
        if self.rows:
            tokens = torch.tensor([[row.written[-1]] for row in self.rows], device=self.model.device)
            places = [row.length + len(row.written) - 1 for row in self.rows]
            logits.append(self.model.step(tokens, self.state, self._layout(places)))
        if self._new:
            logits.append(self._read())
        if not logits:
            return []
        token, logs = self._choose(torch.cat(logits))
        written = []
        for row, number, log in zip(self.rows, token.tolist(), logs.tolist()):
            row.written.append(number)
            written.append((row.number, number, log))
            if number in self.ends or len(row.written) == row.most:
                self._closed.add(row.number)
        return written

    def leave(self) -> None:
        """Let the rows go that have ended or were closed. Called between steps, by whoever may have closed some."""
        if not self._closed:
            return
        self._new = [(row, ids) for row, ids in self._new if row.number not in self._closed]
        kept = [place for place, row in enumerate(self.rows) if row.number not in self._closed]
        self._closed.clear()
        if len(kept) == len(self.rows):
            return
        self.rows = [self.rows[place] for place in kept]
        if not kept:
            self.state = None
            return
        with torch.inference_mode():
            self.state.keep(torch.tensor(kept, device=self.model.device))
            if hasattr(self.state, "trim"):
                self.state.trim(SLACK)

    def _read(self) -> Tensor:
        """Read the prompts that are new: logits of the next token of each, and their rows among the others."""
        rows, prompts = zip(*self._new)
        self._new = []
        lengths, device = [len(ids) for ids in prompts], self.model.device
        width = max(lengths)
        tokens = torch.tensor([[*[0] * (width - len(ids)), *ids] for ids in prompts], device=device)
        state = self.model.start(None, width + max(row.most for row in rows) - 1)
        logits = self.model.step(tokens, state, Layout.padded(lengths, left=True, device=device))
        if bool(logits.isnan().any()):
            raise UserError("the model answers with NaN (not a number): its weights or its precision are broken")
        if self.state is None:
            self.state = state
        else:
            self.state.join(state)
        self.rows += rows
        return logits

    def _layout(self, places: list[int]) -> Layout:
        """One token a row, at these places."""
        position = torch.tensor(places, device=self.model.device)[:, None]
        return Layout(position, torch.zeros_like(position), False, 0, 1, max(places) + 1)

    def _choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        norm = logits.logsumexp(1)
        steps = [len(row.written) for row in self.rows]
        for step in sorted(set(steps)):
            if self.constraints.acts(step):
                at = torch.tensor([place for place, own in enumerate(steps) if own == step], device=logits.device)
                ids = torch.tensor([self.rows[place].written for place in at.tolist()], device=logits.device).long()
                logits[at] = self.constraints.apply(logits[at], norm[at], ids, at)
        early = [place for place, step in enumerate(steps) if step < self.options.min_length or not self.ends]
        if early and self.ends:
            logits[
                torch.tensor(early, device=logits.device)[:, None], torch.tensor(self.ends, device=logits.device)
            ] = -torch.inf
        if self.options.method == "sample":
            drawn = torch.stack([row.uniform[step] for row, step in zip(self.rows, steps) if row.uniform is not None])
            lines = torch.arange(len(self.rows), device=logits.device)
            token = Sampler(self.options, drawn[:, None].to(logits.device))(logits, 0, lines)
        else:
            token = first_of(logits)
        return token, logits.gather(1, token[:, None])[:, 0] - norm

    def _room(self, length: int, wanted: int) -> int:
        limit = self.model.decoder.limit
        if limit is None:
            return wanted
        if length > limit:
            raise UserError(f"the prompt has {length} tokens, the model has positions for {limit}: shorten it")
        return min(wanted, limit - length + 1)
