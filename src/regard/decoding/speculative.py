"""Greedy answers of a model with a decoder alone, several tokens a pass: a guess says how it may go on, the model reads the
guess at once and keeps as much of it as it would have written itself (Leviathan et al. 2023; here for greedy search alone).

The answer is the same, token for token, whatever is guessed; good guesses save passes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.decoding.constraints import Constraints
from regard.decoding.continuation import Written
from regard.decoding.options import Search
from regard.errors import UserError
from regard.layout import Layout


class Guess(Protocol):
    """Says how a text may go on."""

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """Up to `count` ids that may follow these."""
        ...


class Lookup:
    """What followed when the last tokens stood there before, in the prompt or the answer (Saxena 2023, prompt lookup): good
    where an answer repeats what it was given. longest: tokens that must be alike, at best; count: tokens guessed at most."""

    def __init__(self, longest: int = 3, count: int = 10) -> None:
        if longest < 1 or count < 1:
            raise UserError(f"prompt lookup needs at least one token to compare and to guess, not {longest} and {count}")
        self.longest, self.count = longest, count

    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """See Guess."""
        ids = list(ids)
        for size in range(min(self.longest, len(ids) - 1), 0, -1):
            last = ids[-size:]
            for at in range(len(ids) - size - 1, -1, -1):
                if ids[at : at + size] == last:
                    return ids[at + size : at + size + min(count, self.count)]
        return []


class Draft:
    """What a smaller model of the same vocabulary would write. count: tokens guessed at most."""

    def __init__(self, model: Any, count: int = 5) -> None:
        self.model, self.count = model, count
        self.read: list[int] = []
        self.state: Any = None

    @torch.inference_mode()
    def propose(self, ids: Sequence[int], count: int) -> list[int]:
        """See Guess."""
        limit = self.model.decoder.limit
        count = min(count, self.count) if limit is None else min(count, self.count, limit - len(ids))
        if count < 1:
            return []
        same = next((n for n, (a, b) in enumerate(zip(self.read, ids)) if a != b), min(len(self.read), len(ids)))
        same = min(same, len(ids) - 1)  # the last one is read again, for what follows it
        if self.state is None or same == 0:
            self.state, same = self.model.start(None, len(ids) + 64), 0
        else:
            self.state.rewind(same)
        new, guessed = list(ids[same:]), []
        for _ in range(count):
            logits = self.model.step(torch.tensor([new], device=self.model.device), self.state)
            new = [int(logits[0].argmax())]
            guessed += new
        self.read = [*ids, *guessed[:-1]]
        return guessed


class Speculation:
    """An iterator over steps like `Continuation` of one prompt, greedy: each step is the one token written in row 0.

    ends: ids that end it. UserError: the options ask for something else than greedy search, the prompt is longer than the
    model reads, or its state cannot forget what it has read.
    """

    def __init__(self, model: Any, prompt: Sequence[int], options: Search, ends: Collection[int], guess: Guess) -> None:
        if options.method != "greedy":
            raise UserError("guessing ahead is for greedy answers: leave out sampling and beams")
        self.model, self.prompt, self.options, self.ends, self.guess = model, list(prompt), options, sorted(ends), guess
        self.constraints = Constraints(options, self.ends[0] if self.ends else 0, None, model.device)
        self.most = self._room(len(prompt))
        self.closed = False
        self.passes = 0

    def close(self, row: int) -> None:
        """Nothing more is wanted."""
        self.closed = True

    def __iter__(self) -> Iterator[list[Written]]:
        written: list[int] = []
        pending, state = self.prompt, None
        while True:
            room = self.most - len(written) - 1
            guessed = self.guess.propose([*self.prompt, *written], room)[:room] if room > 0 else []
            with torch.inference_mode():
                if state is None:
                    state = self.model.start(None, len(self.prompt) + self.most)
                logits = self._read(state, [*pending, *guessed], len(guessed) + 1)
                right = 0
                for place in range(len(guessed) + 1):
                    token, log = self._choose(logits[place : place + 1], written)
                    written.append(token)
                    yield [(0, token, log)]
                    if self.closed or token in self.ends or len(written) == self.most:
                        return
                    if place == len(guessed) or guessed[place] != token:
                        break
                    right += 1
                if right < len(guessed):
                    self._forget(state, len(guessed) - right)
                pending = written[-1:]

    def _read(self, state: Any, tokens: Sequence[int], count: int) -> Tensor:
        """Logits Float[count V] after each of the last `count` of these tokens."""
        ids = torch.tensor([list(tokens)], device=self.model.device)
        layout = Layout.unpadded(len(tokens), state.length, self.model.device)
        self.passes += 1
        logits = self.model.head(self.model.decoder(ids, state, layout)[:, -count:], layout).logits[0]
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def _choose(self, logits: Tensor, written: list[int]) -> tuple[int, float]:
        step, norm = len(written), logits.logsumexp(1)
        if step == 0 and bool(logits.isnan().any()):
            raise UserError("the model answers with NaN (not a number): its weights or its precision are broken")
        if self.constraints.acts(step):
            ids = torch.tensor([written], dtype=torch.long, device=logits.device)
            logits = self.constraints.apply(logits, norm, ids, torch.zeros(1, dtype=torch.long, device=logits.device))
        if step < self.options.min_length or not self.ends:
            logits = logits.clone()
            logits[:, self.ends] = -torch.inf
        token = int(logits[0].argmax())
        return token, float(logits[0, token] - norm[0])

    @staticmethod
    def _forget(state: Any, count: int) -> None:
        try:
            state.rewind(state.length - count)
        except TypeError:
            raise UserError("this model's state cannot forget what it has read, so nothing can be guessed ahead") from None

    def _room(self, length: int) -> int:
        wanted, limit = self.options.max_length, self.model.decoder.limit
        wanted = 2 * length + 50 if wanted is None else wanted
        if limit is not None and length > limit:
            raise UserError(f"the prompt has {length} tokens, the model has positions for {limit}: shorten it")
        return wanted if limit is None else min(wanted, limit - length + 1)
