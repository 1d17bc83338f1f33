"""Phrases in the search: what each row may write, and a beam shared out among much and little progress.

The beam keeps its width (Post & Vilar 2018): the candidates of a sentence are sorted into banks by the tokens that their
required phrases still need, and the banks take turns (Hu et al. 2019). Unlike there, the first place of each turn is the
best candidate's, whichever its bank, then come the banks that need least: with more banks than beams the likeliest
beginning is never lost to one that has hurried. Where the model would rather end than do anything else, and when no more
tokens are left than the phrases need, only their tokens are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.decoding.best import first_of
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
        self._words: Tensor | None = None

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
        usual: Literal["alone", "usual"] = "alone" if self.alone else "usual"
        for row, stage in enumerate(self.rows):
            if stage is None:
                continue
            left = self.limits[numbers[row]] - step
            when: Literal["alone", "usual", "last"] = usual if left > 1 else "last"
            blocked = stage.blocked.get(when)
            if blocked is None:
                blocked = stage.forbidden(when)
            if blocked:
                at += [row] * len(blocked)
                taken += blocked
            if over[row] and stage.missing:
                self.turned[row] = True
            if stage.seen.rest:
                narrow.append((row, stage.opening))
            late = left <= stage.worst + 1
            if not (late or self.turned[row]):
                continue
            if stage.missing and stage.advance:
                narrow.append((row, stage.advance))
            elif late and stage.worst:
                narrow.append((row, [*stage.rules.lexicon.outside, self.eos]))
        if at:
            logits[torch.tensor(at, device=logits.device), torch.tensor(taken, device=logits.device)] = -math.inf
        self._hold(logits)
        if narrow:
            self._narrow(logits, narrow)

    def _hold(self, logits: Tensor) -> None:
        """Where a forbidden phrase stands, let its word go on."""
        held = [row for row, stage in enumerate(self.rows) if stage is not None and stage.held]
        if not held:
            return
        logits[torch.tensor(held, device=logits.device)[:, None], self._outside(logits)] = -math.inf

    def choose(
        self, logits: Tensor, norm: Tensor, total: Tensor, found: tuple[Tensor, Tensor, Tensor], over: Sequence[bool]
    ) -> None:
        """Rewrite the candidates of sentences with rules, as `extensions` found them: ends first, then what goes on, best
        first. Among them are then the best token of each beam, those that bring its phrases nearer, and the best that leaves
        a required phrase the word that it is.

        logits, norm, total: as for `extensions`. over: of each sentence whether this token is its last, and unfinished
        answers are worth keeping only if nothing better is known."""
        best, place, log = found
        width, count, vocab = total.shape[1], best.shape[1], logits.shape[1]
        lists = [[] if stage is None else stage.advance for stage in self.rows]
        every, onward, given = _side_by_side(range(len(lists)), lists, logits.device)
        more = torch.cat([first_of(logits)[:, None], self._whole(logits), onward], 1)
        level = (total.flatten() - norm)[:, None]
        scores = logits.gather(1, more) + level
        scores[:, 2:].masked_fill_(~given, -math.inf)
        near, its = (every[:, None] % width * vocab + more).tolist(), scores.tolist()
        usual, known = place.tolist(), best.tolist()
        rows, chosen = [], []
        for sentence, last in enumerate(over):
            start = sentence * width
            stages = [stage for stage in self.rows[start : start + width] if stage is not None]
            if not stages:
                continue
            ranked = {at: score for at, score in zip(usual[sentence], known[sentence]) if score > -math.inf}
            if not any(stage.missing for stage in stages) and not any(self._needs(stages, ranked, vocab)):
                continue  # nothing is needed by any of them: the best are what would be chosen
            for row in range(start, start + width):
                for at, score in zip(near[row], its[row]):
                    if score > -math.inf:
                        ranked.setdefault(at, score)
            order = sorted((-score, at) for at, score in ranked.items())
            places = [at for _, at in order]
            needs = self._needs(stages, places, vocab)
            kept = [places[n] for n in _shared(needs, [at % vocab == self.eos for at in places], count // 2, last)]
            rows.append(sentence)
            chosen.append([*kept, *[-1] * (count - len(kept))])
        if rows:
            at, first = torch.tensor(chosen, device=place.device), torch.tensor(rows, device=place.device)[:, None] * width
            place[rows] = inside = at.clamp(min=0)
            row = first + inside // vocab
            log[rows] = logits[row, inside % vocab] - norm[row]
            best[rows] = (total.flatten()[row] + log[rows]).masked_fill(at < 0, -math.inf)

    def _whole(self, logits: Tensor) -> Tensor:
        """Int[R 1]: where a required phrase stands, the best token that does not go on with its word; elsewhere any."""
        found = torch.zeros(len(logits), 1, dtype=torch.long, device=logits.device)
        rows = [row for row, stage in enumerate(self.rows) if stage is not None and stage.stands]
        if rows:
            after = torch.cat([self._outside(logits), found.new_tensor([self.eos])])
            found[rows, 0] = after[logits[torch.tensor(rows, device=logits.device)[:, None], after].argmax(1)]
        return found

    def _outside(self, logits: Tensor) -> Tensor:
        """The ids of `Lexicon.outside`."""
        if self._words is None:
            stage = next(one for one in self.rows if one is not None)
            self._words = torch.tensor(stage.rules.lexicon.outside, dtype=torch.long, device=logits.device)
        return self._words

    def _would_end(self, logits: Tensor, norm: Tensor) -> list[bool]:
        """Whether the model would end each row here: in a beam, if that is likelier than all else together."""
        ends = logits.argmax(1) == self.eos if self.alone else logits[:, self.eos] - norm > SURE
        return ends.tolist()

    def _needs(self, stages: Sequence[Stage], places: Iterable[int], vocab: int) -> list[int]:
        """`Stage.need` of each place in a sentence, beam * vocab + token; an end mark is no token of the text."""
        found = []
        for at in places:
            stage, token = stages[at // vocab], at % vocab
            need = stage.needs.get(token)
            if need is None:
                need = stage.need(token) if token != self.eos else max(stage.missing, int(not stage.ends))
            found.append(need)
        return found

    @staticmethod
    def _narrow(logits: Tensor, wanted: Sequence[tuple[int, Sequence[int]]]) -> None:
        """Leave rows of logits these tokens alone, if any of them may be written."""
        rows, tokens, given = _side_by_side([row for row, _ in wanted], [its for _, its in wanted], logits.device)
        kept = logits[rows[:, None], tokens].masked_fill(~given, -math.inf)
        some = (kept > -math.inf).any(1)
        rows, tokens, given, kept = rows[some], tokens[some], given[some], kept[some]
        logits[rows] = -math.inf
        logits[rows[:, None].expand_as(tokens)[given], tokens[given]] = kept[given]


def _side_by_side(
    rows: Sequence[int], lists: Sequence[Sequence[int]], device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Int[R], lists of unequal length as Int[R C], and which of it was given: Bool[R C]."""
    most = max(map(len, lists), default=0)
    made = torch.tensor([[*its, *[-1] * (most - len(its))] for its in lists], dtype=torch.long, device=device)
    made = made.view(len(lists), most)
    return torch.tensor(list(rows), dtype=torch.long, device=device), made.clamp(min=0), made >= 0


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
