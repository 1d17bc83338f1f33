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
from itertools import chain

import torch
from torch import Tensor

from regard.decoding.best import first_of
from regard.decoding.needs import Needs
from regard.decoding.options import Search
from regard.decoding.phrases import Rules, Stage
from regard.decoding.turns import shared

SURE = math.log(0.5)
"""Log-probability of the end mark above which a beam that lacks phrases turns to them."""

LACKING = 2.0
"""What each token that a running hypothesis lacks is taken to cost it, in log-probability, once its sentence has an answer:
what runs goes on only if it may yet be better."""


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
        self.limits, self.eos, self.options = list(limits), eos, options
        self.alone = options.method != "beam"
        self.ruled = [one is not None for one in rules]
        self.lexicon = next(one.lexicon for one in rules if one is not None)
        free = Rules(self.lexicon)
        self.rules = [free if one is None else one for one in rules]
        self.rows: list[Stage] = [one.start() for one in self.rules]
        self.turned: list[bool] = [False] * len(self.rows)
        self._needs: Needs | None = None
        self._stage = self._limits = torch.zeros(0, dtype=torch.long)
        self._inside: Tensor | None = None

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
            if token != self.eos:
                after = self.rows[row].after(token)
                self.turned[row] = self.turned[row] and bool(after.seen.active) and after.missing > 0
                self.rows[row] = after

    def enough(self, sentence: int) -> int:
        """Finished answers after which a sentence's search may stop: those asked for where phrases slow down the others."""
        its = self.options
        return its.num_return if self.ruled[sentence] and its.stopping != "first" else its.num_beams

    def price(self, rows: Tensor, tokens: Tensor) -> Tensor:
        """Float[A w]: `LACKING` for each token that phrases still need when rows Int[A w] have written tokens Int[A w]."""
        pairs = zip(rows.flatten().tolist(), tokens.flatten().tolist(), strict=True)
        missing = [self.rows[row].after(token).missing for row, token in pairs]
        return torch.tensor(missing, device=rows.device).view(rows.shape) * LACKING

    def mask(self, logits: Tensor, norm: Tensor, step: int, sentences: Tensor) -> None:
        """Take away from logits Float[R V] what the rows may not write as token number `step`. norm: Float[R], as in
        `Constraints.apply`."""
        if self._needs is None:
            self._needs = Needs(self.rules, self.eos, logits.device)
            self._limits = torch.tensor(self.limits, device=logits.device)
        needs = self._needs
        self._stage = stage = needs.numbers(self.rows)
        left = self._limits[sentences] - step
        early = needs.told(stage, "ends") == 0
        for row in (early & self._would_end(logits, norm) & (needs.told(stage, "missing") > 0)).nonzero()[:, 0].tolist():
            self.turned[row] = True
        logits[early, self.eos] = -math.inf
        if self.alone:
            blocked = [its.forbidden("alone" if more > 1 else "last") for its, more in zip(self.rows, left.tolist())]
            rows = torch.tensor([row for row, some in enumerate(blocked) for _ in some], device=logits.device).long()
            taken = torch.tensor(list(chain.from_iterable(blocked)), device=logits.device).long()
        else:
            rows, taken = needs.forbidden(stage, (left <= 1) | (not self.lexicon.inside))
        logits[rows, taken] = -math.inf
        held = (needs.told(stage, "held") > 0).nonzero()[:, 0]
        if len(held):  # where a forbidden phrase stands, its word must go on
            logits[held] = logits[held].masked_fill(~self._inside_words(logits), -math.inf)
        late = left <= needs.told(stage, "worst") + 1
        self._turn(logits, late, (needs.told(stage, "opening") > 0).nonzero()[:, 0].tolist())

    def _turn(self, logits: Tensor, late: Tensor, opening: Sequence[int]) -> None:
        """Leave rows alone what brings their phrases nearer: those that turn to them, and those, Bool[R], that have no
        more time; and those with a beginning to write alone what goes on with it."""
        narrow: list[tuple[int, Sequence[int]]] = [(row, self.rows[row].opening) for row in opening]
        pressed = set(late.nonzero()[:, 0].tolist())
        for row in sorted(pressed.union(row for row, turned in enumerate(self.turned) if turned)):
            stage = self.rows[row]
            if stage.missing and stage.advance:
                narrow.append((row, stage.advance))
            elif row in pressed and stage.worst:
                narrow.append((row, [*self.lexicon.outside, self.eos]))
        if narrow:
            self._narrow(logits, narrow)

    def choose(
        self, logits: Tensor, norm: Tensor, total: Tensor, found: tuple[Tensor, Tensor, Tensor], step: int, sentences: Tensor
    ) -> None:
        """Rewrite the candidates of sentences with rules, as `extensions` found them: ends first, then what goes on, best
        first. Among them are then the best token of each beam, those that bring its phrases nearer, and the best that leaves
        a required phrase the word that it is.

        logits, norm, total: as for `extensions`. step: number of the token. sentences: Int[A], numbers of the sentences. At
        their last token, unfinished answers are worth keeping only if nothing better is known."""
        best, place, log = found
        (count, width), vocab = total.shape, logits.shape[1]
        needs, stage, level = self._needs, self._stage, total.flatten() - norm
        assert needs is not None
        first = first_of(logits)
        more = torch.stack([first, self._whole(logits, first)], 1)
        start = torch.arange(count * width, device=logits.device) % width * vocab
        score = torch.cat([best, (logits.gather(1, more) + level[:, None]).view(count, -1)], 1)
        places = torch.cat([place, (start[:, None] + more).view(count, -1)], 1)
        whose = stage.view(count, width).gather(1, places // vocab)
        need = needs.of(whose, sentences[:, None].expand_as(whose), places % vocab, score > -math.inf)
        asked = ((need > 0) & (score > -math.inf))[:, : best.shape[1]].any(1)
        lacks = (needs.told(stage, "missing") > 0).view(count, width).any(1)
        busy = (asked | lacks).nonzero()[:, 0]  # of the others the best are what would be chosen
        if not len(busy):
            return
        rows = (busy[:, None] * width + torch.arange(width, device=logits.device)).flatten()
        onward, lack = needs.onward(stage[rows])
        near = (logits[rows[:, None], onward] + level[rows, None]).masked_fill(lack < 0, -math.inf)
        score, places, need = (
            torch.cat([known[busy], new.view(len(busy), -1)], 1)
            for known, new in ((score, near), (places, start[rows, None] + onward), (need, lack))
        )
        last = torch.tensor([self.limits[n] == step + 1 for n in sentences[busy].tolist()], device=logits.device)
        at = shared(places, score, need, places % vocab == self.eos, best.shape[1] // 2, last)
        inside = at.clamp(min=0)
        place[busy], row = inside, busy[:, None] * width + inside // vocab
        log[busy] = logits[row, inside % vocab] - norm[row]
        best[busy] = (total.flatten()[row] + log[busy]).masked_fill(at < 0, -math.inf)

    def _whole(self, logits: Tensor, first: Tensor) -> Tensor:
        """Int[R]: where a required phrase stands, the best token that does not go on with its word; elsewhere any. first:
        Int[R], the best token of each row."""
        inside = self._inside_words(logits)
        stands = torch.tensor([stage.stands for stage in self.rows], device=logits.device)
        rows = (stands & inside[first]).nonzero()[:, 0]
        if not len(rows):
            return first
        return first.index_put((rows,), logits[rows].masked_fill(inside, -math.inf).argmax(1))

    def _inside_words(self, logits: Tensor) -> Tensor:
        """Bool[V]: not of `Lexicon.outside`, nor the end mark."""
        if self._inside is None:
            self._inside = torch.ones(logits.shape[1], dtype=torch.bool, device=logits.device)
            self._inside[torch.tensor([*self.lexicon.outside, self.eos], device=logits.device)] = False
        return self._inside

    def _would_end(self, logits: Tensor, norm: Tensor) -> Tensor:
        """Bool[R]: whether the model would end each row here; in a beam, if that is likelier than all else together."""
        return logits.argmax(1) == self.eos if self.alone else logits[:, self.eos] - norm > SURE

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
