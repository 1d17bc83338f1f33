"""Phrases in the search: what each row may write, and a beam shared out among much and little progress.

The beam keeps its width (Post & Vilar 2018): the candidates of a sentence are sorted into banks by the tokens that their
required phrases still need, and the banks take turns (Hu et al. 2019). Unlike there, the first place of each turn is the
best candidate's, whichever its bank, then come the banks that need least: with more banks than beams the likeliest
beginning is never lost to one that has hurried. Where the model would rather end than do anything else, and when no more
tokens are left than the phrases need, only their tokens are written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.decoding.options import Search
from regard.decoding.phrases import Rules, Stage

SURE = math.log(0.5)
"""Log-probability of the end mark above which a beam that lacks phrases turns to them."""


@dataclass(frozen=True)
class Demand:
    """What one answer must begin with (ids), and the phrases that it must and must not hold."""

    begin: Sequence[int] = ()
    rules: Rules | None = None

    def __bool__(self) -> bool:
        return bool(self.begin) or bool(self.rules)

    @classmethod
    def divided(
        cls, wanted: Sequence[Sequence[int] | Demand] | None
    ) -> tuple[list[Sequence[int]] | None, list[Rules | None] | None]:
        """The beginnings and the rules of all answers; None where no answer has any."""
        if wanted is None:
            return None, None
        all_ = [one if isinstance(one, Demand) else cls(one) for one in wanted]
        rules = [one.rules if one.rules else None for one in all_]
        return [one.begin for one in all_], rules if any(rules) else None


class Tracker:
    """The stage of each row of a search. rules: of each sentence. limits: its most tokens. Where rows do not compete
    (greedy search, sampling), a row that the model would end turns to its missing phrases."""

    def __init__(self, rules: Sequence[Rules | None], limits: Sequence[int], eos: int, options: Search) -> None:
        self.rules, self.limits, self.eos, self.options = list(rules), list(limits), eos, options
        self.alone = options.method != "beam"
        self.rows: list[Stage | None] = [None if one is None else one.start() for one in rules]
        self.turned: list[bool] = [False] * len(self.rows)
        self._outside: Tensor | None = None

    def spread(self, sentences: Sequence[int]) -> None:
        """A row for each of these sentences. To be called before the first token."""
        self.rows = [self.rows[sentence] for sentence in sentences]
        self.turned = [False] * len(self.rows)

    def take(self, rows: Tensor) -> None:
        """Row i becomes a copy of row rows[i]."""
        numbers = rows.tolist()
        self.rows, self.turned = [self.rows[n] for n in numbers], [self.turned[n] for n in numbers]

    def wrote(self, tokens: Tensor) -> None:
        """Each row has written a token Int[R]."""
        for row, token in enumerate(tokens.tolist()):
            stage = self.rows[row]
            if stage is not None and token != self.eos:
                after = stage.after(token)
                self.turned[row] = self.turned[row] and bool(after.seen.active) and after.missing > 0
                self.rows[row] = after

    def enough(self, sentence: int) -> int:
        """Finished answers after which a sentence's search may stop: those asked for where phrases slow down the others."""
        its = self.options
        return its.num_beams if self.rules[sentence] is None or its.stopping == "first" else its.num_return

    def mask(self, logits: Tensor, norm: Tensor, step: int, sentences: Tensor) -> None:
        """Take away from logits Float[R V] what the rows may not write as token number `step`. norm: Float[R], as in
        `Constraints.apply`."""
        numbers, over = sentences.tolist(), self._would_end(logits, norm)
        early = [row for row, stage in enumerate(self.rows) if stage is not None and not stage.ends]
        logits[early, self.eos] = -math.inf
        at: list[int] = []  # rows and tokens that are taken away, all at once
        taken: list[int] = []
        narrow: list[tuple[int, list[int]]] = []
        for row, stage in enumerate(self.rows):
            if stage is None:
                continue
            left = self.limits[numbers[row]] - step
            self.turned[row] |= over[row] and stage.missing > 0
            blocked = self._blocked(stage, "last" if left <= 1 else "alone" if self.alone else "usual")
            at += [row] * len(blocked)
            taken += blocked
            if stage.seen.rest:
                narrow.append((row, stage.opening))
            late = left <= stage.worst + 1
            if stage.missing and (self.turned[row] or late) and stage.advance:
                narrow.append((row, stage.advance))
            elif late and stage.worst:
                narrow.append((row, [*stage.rules.lexicon.outside, self.eos]))
        if at:
            logits[torch.tensor(at, device=logits.device), torch.tensor(taken, device=logits.device)] = -math.inf
        self._hold(logits)
        for row, tokens in narrow:
            self._only(logits[row], tokens)

    def _hold(self, logits: Tensor) -> None:
        """Where a forbidden phrase stands, let its word go on."""
        held = [(row, stage) for row, stage in enumerate(self.rows) if stage is not None and stage.held]
        if not held:
            return
        if self._outside is None:
            self._outside = torch.tensor(held[0][1].rules.lexicon.outside, dtype=torch.long, device=logits.device)
        logits[torch.tensor([row for row, _ in held], device=logits.device)[:, None], self._outside] = -math.inf

    def widen(self, logits: Tensor, value: Tensor, token: Tensor) -> tuple[Tensor, Tensor]:
        """`value`, `token` [R C], the best of each row of logits, and after them what brings phrases nearer."""
        lists = [[] if stage is None else stage.advance for stage in self.rows]
        most = max(map(len, lists), default=0)
        if not most:
            return value, token
        padded = torch.tensor([[*found, *[-1] * (most - len(found))] for found in lists], device=token.device)
        inside = padded.clamp(min=0)
        more = logits.gather(1, inside)
        known = (padded < 0) | (inside[:, :, None] == token[:, None]).any(-1)
        return torch.cat([value, more.masked_fill(known, -math.inf)], 1), torch.cat([token, inside], 1)

    def choose(self, whole: Tensor, token: Tensor, best: Tensor, place: Tensor, over: Sequence[bool]) -> None:
        """Rewrite the candidates `best`, `place` [A 2K] of sentences with rules: ends first, then what goes on, best first.

        whole: Float[A w*C], the log-probability of each extension. token: Int[A w*C]. over: of each sentence whether this
        token is its last, and unfinished answers are worth keeping only if nothing better is known."""
        width, count = len(self.rows) // len(whole), best.shape[1]
        columns = token.shape[1] // width
        all_scores, all_tokens, usual = whole.tolist(), token.tolist(), place.tolist()
        rows, chosen = [], []
        for sentence, last in enumerate(over):
            stages = self.rows[sentence * width : (sentence + 1) * width]
            if stages[0] is None:
                continue
            scores, tokens = all_scores[sentence], all_tokens[sentence]
            found = {beam * columns for beam in range(width)}.union(usual[sentence])
            if not any(stage is not None and stage.missing for stage in stages):
                near = (at for at in found if at < len(tokens) and scores[at] > -math.inf)
                if not any(self._need(stages[at // columns], tokens[at]) for at in near):
                    continue  # nothing is needed by any of them: the best are what would be chosen
            found.update(at for beam in range(width) for at in range(beam * columns + count, (beam + 1) * columns))
            order = sorted(
                (at for at in found if at < len(tokens) and scores[at] > -math.inf), key=lambda at: (-scores[at], at)
            )
            needs = [self._need(stages[at // columns], tokens[at]) for at in order]
            kept = [order[n] for n in _shared(needs, [tokens[at] == self.eos for at in order], count // 2, last)]
            rows.append(sentence)
            chosen.append([*kept, *[-1] * (count - len(kept))])
        if rows:
            at = torch.tensor(chosen, device=place.device)
            place[rows] = at.clamp(min=0)
            best[rows] = whole[rows].gather(1, at.clamp(min=0)).masked_fill(at < 0, -math.inf)

    def _would_end(self, logits: Tensor, norm: Tensor) -> list[bool]:
        """Whether the model would end each row here: in a beam, if that is likelier than all else together."""
        ends = logits.argmax(1) == self.eos if self.alone else logits[:, self.eos] - norm > SURE
        return ends.tolist()

    def _need(self, stage: Stage | None, token: int) -> int:
        """Tokens that are still needed after this one: by required phrases, and to go on with a word that must not end."""
        if stage is None:
            return 0
        if token == self.eos:
            return max(stage.missing, int(not stage.ends))
        after = stage.after(token)
        return after.missing + after.held

    @staticmethod
    def _blocked(stage: Stage, when: Literal["usual", "alone", "last"]) -> list[int]:
        if when not in stage.blocked:
            stage.blocked[when] = stage.forbidden(when)
        return stage.blocked[when]

    @staticmethod
    def _only(its: Tensor, tokens: list[int]) -> None:
        kept = its[tokens]
        if bool((kept > -math.inf).any()):
            its.fill_(-math.inf)
            its[tokens] = kept


def _shared(needs: Sequence[int], ends: Sequence[bool], width: int, last: bool) -> list[int]:
    """Numbers of candidates, which come best first: those that end, among the first `width` that need nothing; then `width`
    that go on. An end mark that comes too early is taken only where nothing else is left."""
    if last:
        least = min(needs, default=0)
        return [n for n, need in enumerate(needs) if need == least][:width]
    complete = [n for n, need in enumerate(needs) if need == 0][:width]
    banks: dict[int, list[int]] = {}
    for n, need in enumerate(needs):
        if not ends[n]:
            banks.setdefault(need, []).append(n)
    turns: list[int] = []
    ordered = [banks[need] for need in sorted(banks)]
    for rank in range(width):
        turn = [bank[rank] for bank in ordered if len(bank) > rank]
        if not turn or len(turns) >= width:
            break
        first = min(turn)
        turns.append(first)
        turns += [n for n in turn if n != first]
    finished = [n for n in complete if ends[n]]
    if not turns and not finished:
        finished = [n for n in range(min(width, len(needs))) if ends[n]]
    return finished + sorted(turns[:width])
