"""Going on with prompts token by token, for models with a decoder alone: as much as the reader wants, all rows at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from regard.decoding.best import first_of
from regard.decoding.constraints import Constraints
from regard.decoding.options import Search
from regard.decoding.sampling import Sampler, draws
from regard.errors import UserError
from regard.layout import Layout

Written = tuple[int, int, float]
"""The row of a prompt, the token written there, and its log-probability."""


class Continuation:
    """An iterator over steps, each a list of what was written in the rows that still go on.

    prompts: ids, at least one a row. options: greedy or sampling (`max_length` bounds each row). ends: ids that end a row.
    names: for sampling, number and copy of each row. A row that should end early is told to by `close`. UserError: a
    prompt has more tokens than the model has positions.
    """

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        options: Search,
        ends: Collection[int],
        names: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self.model, self.options, self.ends, self.prompts = model, options, sorted(ends), prompts
        lengths, device = [len(prompt) for prompt in prompts], model.device
        self.layout = Layout.padded(lengths, left=True, device=device)
        width = max(lengths)
        self.tokens = torch.tensor([[*[0] * (width - len(prompt)), *prompt] for prompt in prompts], device=device)
        self.counts = [self._room(number, length) for number, length in enumerate(lengths, 1)]
        self.lines = torch.arange(len(prompts), device=device)
        self.written = torch.zeros(len(prompts), max(self.counts), dtype=torch.long, device=device)
        self.closed: set[int] = set()
        self.fast = False  # in compiled code
        self.constraints = Constraints(options, self.ends[0] if self.ends else 0, None, device)
        names = [(row, 0) for row in range(len(prompts))] if names is None else names
        uniform = draws(options.seed, names, self.counts).to(device) if options.method == "sample" else None
        self.sampler = None if uniform is None else Sampler(options, uniform)

    def close(self, row: int) -> None:
        """Nothing more is wanted in this row."""
        self.closed.add(row)

    def __iter__(self) -> Iterator[list[Written]]:
        state = None
        for step in range(max(self.counts)):
            with torch.inference_mode():
                state = self._start() if state is None else state
                token, logs = self._step(state, step)
            rows, tokens = self.lines.tolist(), token.tolist()
            for row, number in zip(rows, tokens):
                if number in self.ends or step + 1 == self.counts[row]:
                    self.closed.add(row)
            yield list(zip(rows, tokens, logs.tolist()))
            open_ = [place for place, row in enumerate(rows) if row not in self.closed]
            if not open_:
                return
            if len(open_) < len(rows):
                self._keep(state, torch.tensor(open_, device=token.device))
                token = token[open_]
            self.tokens = token[:, None]

    def _start(self) -> Any:
        room, twin = self.tokens.shape[1] + max(self.counts) - 1, getattr(self.model, "compiled", None)
        if twin is None or not twin.alone():
            return self.model.start(None, room)
        self.fast = True
        return twin.steps(self.prompts, room)

    def _step(self, state: Any, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        logits = state.step(self.tokens) if self.fast else self.model.step(self.tokens, state, self.layout)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if step == 0 and bool(logits.isnan().any()):
            raise UserError("the model answers with NaN (not a number): its weights or its precision are broken")
        self.layout = self.layout.next()
        norm = logits.logsumexp(1)
        if self.constraints.acts(step):
            logits = self.constraints.apply(logits, norm, self.written[self.lines, :step], self.lines)
        if step < self.options.min_length or not self.ends:
            logits[:, self.ends] = -torch.inf
        token = first_of(logits) if self.sampler is None else self.sampler(logits, step, self.lines)
        self.written[self.lines, step] = token
        return token, logits.gather(1, token[:, None])[:, 0] - norm

    def _keep(self, state: Any, places: torch.Tensor) -> None:
        with torch.inference_mode():
            state.keep(places)
            self.lines = self.lines[places]
            layout = self.layout.take(places)  # the longest may be gone, and with it the need for its positions
            self.layout = layout if layout.whole else replace(layout, longest=int(layout.position.max()) + 1)

    def _room(self, number: int, length: int) -> int:
        wanted, limit = self.options.max_length, self.model.decoder.limit
        wanted = 2 * length + 50 if wanted is None else wanted
        if limit is None:
            return wanted
        if length > limit:
            raise UserError(f"prompt {number} has {length} tokens, the model has positions for {limit}: shorten it")
        return min(wanted, limit - length + 1)
