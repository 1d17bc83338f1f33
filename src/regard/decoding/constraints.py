"""What a search may not write: logits of forbidden tokens become minus infinity, the others' log-probabilities stay."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.banks import Demand, Tracker
from regard.decoding.options import Search
from regard.errors import UserError

FIRST = 64
"""Ids of a row that are looked at before all of them are."""


class Constraints:
    """Minimum length, suppressed and repeated tokens, repeated n-grams, and the tokens each sentence must begin with."""

    def __init__(
        self, options: Search, eos: int, prefix: Sequence[Sequence[int]] | None, device: torch.device | str | None
    ) -> None:
        self.options, self.eos = options, eos
        self.longest = max((len(ids) for ids in prefix or ()), default=0)
        self.prefix: Tensor | None = None
        if prefix is not None and self.longest:
            padded = [list(ids) + [-1] * (self.longest - len(ids)) for ids in prefix]
            self.prefix = torch.tensor(padded, dtype=torch.long, device=device)
        self.phrases: Tracker | None = None
        self.suppressed = torch.tensor(options.suppress_tokens, dtype=torch.long, device=device)
        self.largest = max((*options.suppress_tokens, options.first_token or 0))

    @classmethod
    def of(
        cls,
        options: Search,
        eos: int,
        prefix: Sequence[Sequence[int] | Demand] | None,
        limits: Sequence[int],
        device: torch.device | str | None,
    ) -> Constraints:
        """Those of a search: `prefix` with the phrases that it names. limits: the most tokens of each answer."""
        begins, rules = Demand.divided(prefix)
        made = cls(options, eos, begins, device)
        if rules is not None:
            made.phrases = Tracker(rules, limits, eos, options)
        return made

    def acts(self, step: int) -> bool:
        """Whether anything is forbidden or changed when token number `step` (from 0) is chosen."""
        its = self.options
        size = its.no_repeat_ngram_size
        return (
            step < max(self.longest, its.min_length)
            or len(self.suppressed) > 0
            or self.phrases is not None
            or (its.first_token is not None and step == 0)
            or (its.repetition_penalty != 1.0 and step > 0)
            or (size > 0 and step >= size)
        )

    def apply(self, logits: Tensor, norm: Tensor, ids: Tensor, lines: Tensor) -> Tensor:
        """The logits Float[R V], written over. norm: Float[R], log of the sum of exp(logits). ids: Int[R T], what each row
        wrote already. lines: Int[R], the row's sentence. A row for which nothing is left may end."""
        its, step = self.options, ids.shape[1]
        if self.largest >= logits.shape[1]:
            raise UserError(f"suppress_tokens or first_token names id {self.largest}, the model has {logits.shape[1]} ids")
        ends = logits[:, self.eos].clone()
        forced = self._forced(logits, step, lines)
        if its.repetition_penalty != 1.0 and step:
            log_probs = logits.gather(1, ids) - norm[:, None]
            logits.scatter_(1, ids, log_probs * its.repetition_penalty + norm[:, None])
        if len(self.suppressed):
            logits[:, self.suppressed] = -math.inf
        if step < its.min_length:
            logits[:, self.eos] = -math.inf
        if 0 < its.no_repeat_ngram_size <= step:
            self._forbid_ngrams(logits, ids, its.no_repeat_ngram_size)
        if self.phrases is not None:
            self.phrases.mask(logits, norm, step, lines)
        self._free(logits, ends)
        if forced is not None:
            rows, tokens, kept = forced
            logits[rows] = -math.inf
            logits[rows, tokens] = kept
        if its.first_token is not None and step == 0:
            logits = torch.full_like(logits, -math.inf)
            logits[:, its.first_token] = norm  # so that its log-probability is 0
        return logits

    def wrote(self, tokens: Tensor) -> None:
        """Every row has written a token Int[R]."""
        if self.phrases is not None:
            self.phrases.wrote(tokens)

    def spread(self, sentences: Sequence[int]) -> None:
        """A row for each of these sentences, before the first token."""
        if self.phrases is not None:
            self.phrases.spread(sentences)

    def take(self, rows: Tensor) -> None:
        """Row i becomes a copy of row rows[i]."""
        if self.phrases is not None:
            self.phrases.take(rows)

    def _forced(self, logits: Tensor, step: int, lines: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """The rows that must write a certain token now, these tokens, and their logits; None if there are none."""
        if self.prefix is None or step >= self.longest:
            return None
        tokens = self.prefix[lines, step]
        rows = (tokens >= 0).nonzero()[:, 0]
        return rows, tokens[rows], logits[rows, tokens[rows]]

    def _free(self, logits: Tensor, ends: Tensor) -> None:
        """Let the rows end for which nothing is left. Most have something left among their first ids. ends: Float[R], what
        the end marks had."""
        doubtful = (logits[:, :FIRST].amax(1) == -math.inf).nonzero()[:, 0]
        if len(doubtful):
            stuck = doubtful[logits[doubtful].amax(1) == -math.inf]
            logits[stuck, self.eos] = ends[stuck]

    @staticmethod
    def _forbid_ngrams(logits: Tensor, ids: Tensor, size: int) -> None:
        grams = ids.unfold(1, size, 1)
        begun = ids[:, ids.shape[1] - size + 1 :]
        same = (grams[:, :, :-1] == begun[:, None]).all(-1)
        rows, places = same.nonzero(as_tuple=True)
        logits[rows, grams[rows, places, -1]] = -math.inf
