"""What the candidates of a batch still need: looked up in tables, and asked of the automaton where phrases are touched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from regard.decoding.phrases import Rules, Stage

ROW = 1 << 32
"""An id with a number (of a sentence, of a stage) as one number: number · ROW + id."""
LAST = (1 << 63) - 1
"""After all of these."""
CLASSES = 7
TOLD: dict[str, Callable[[Stage], int]] = {
    "missing": lambda stage: stage.missing,
    "ended": lambda stage: max(stage.missing, not stage.ends),
    "opening": lambda stage: bool(stage.seen.rest),
    "ends": lambda stage: stage.ends,
    "held": lambda stage: stage.held,
    "worst": lambda stage: stage.worst,
}
"""What is looked up of a stage, after `Stage.usual` of the CLASSES of ids; `ended`: what an end mark leaves open."""
PLACE = {name: CLASSES + at for at, name in enumerate(TOLD)}


class Needs:
    """What stages of many rows tell, looked up at once. rules: of each sentence, over one lexicon. eos: the end mark.

    Stages are numbered as they come, and each has a row in tables. Of most ids only their class counts (`Stage.usual`);
    those that touch a phrase of the sentence, or go on with what is begun, are asked for one by one."""

    def __init__(self, rules: Sequence[Rules], eos: int, device: torch.device | str | None) -> None:
        self.eos, self.device = eos, device
        self._classes = torch.tensor([*rules[0].lexicon.classes, 0], device=device)
        self._touching = _keys(((number, its.touching) for number, its in enumerate(rules)), device)
        self._stages: list[Stage] = []
        self._numbers: dict[Stage, int] = {}
        self._told, self._advance, self._lack, self._broken, self._late, self._begun = (
            torch.zeros(0, 0, dtype=torch.long, device=device) for _ in range(6)
        )
        self._keys = 0

    def numbers(self, stages: Sequence[Stage]) -> Tensor:
        """Int[R]: the numbers of stages."""
        new = [stage for stage in dict.fromkeys(stages) if stage not in self._numbers]
        if new:
            self._add(new)
        return torch.tensor([self._numbers[stage] for stage in stages], device=self.device)

    def told(self, numbers: Tensor, name: str) -> Tensor:
        """Int[…]: a number of the stages, one of TOLD."""
        return self._told[numbers, PLACE[name]]

    def of(self, numbers: Tensor, sentences: Tensor, token: Tensor, there: Tensor) -> Tensor:
        """Int[S C]: tokens that are still needed after each candidate; at least 1 if it is an end mark that comes too early.
        numbers, sentences, token: Int[S C], the stage and the sentence that a candidate goes on with, and its token. there:
        Bool[S C], the candidates that count; of others nothing is told."""
        need = self._told[numbers, self._classes[token.clamp(max=len(self._classes) - 1)]]
        near = _among(sentences * ROW + token, self._touching) | _among(numbers * ROW + token, self._begun.flatten())
        near = (near | (self.told(numbers, "opening") > 0)) & there & (token != self.eos)
        exact = []
        for number, its in zip(numbers[near].tolist(), token[near].tolist(), strict=True):
            known = self._stages[number].needs.get(its)
            exact.append(self._stages[number].need(its) if known is None else known)
        need[near] = torch.tensor(exact, dtype=need.dtype, device=need.device)
        return torch.where(token == self.eos, self.told(numbers, "ended"), need)

    def onward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens that bring the phrases of stages Int[R] nearer, and what is needed after them (-1: there is none): both
        Int[R C]."""
        return self._advance[numbers], self._lack[numbers]

    def forbidden(self, numbers: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """`Stage.forbidden` of stages Int[R], "last" where Bool[R] says so and else "usual": the rows and the ids."""
        found = []
        for table, rows in ((self._broken, None), (self._late, last)):
            ids = table[numbers]
            at, place = (ids >= 0 if rows is None else (ids >= 0) & rows[:, None]).nonzero(as_tuple=True)
            found.append((at, ids[at, place]))
        (rows, ids), (more, others) = found
        return torch.cat([rows, more]), torch.cat([ids, others])

    def _add(self, stages: Sequence[Stage]) -> None:
        """Number these stages."""
        first = len(self._stages)
        self._stages += stages
        self._numbers.update((stage, first + at) for at, stage in enumerate(stages))
        keys = sorted((first + at) * ROW + its for at, stage in enumerate(stages) for its in stage.goes_on)
        self._begun = self._with(self._begun, self._keys, [[key] for key in keys], LAST)  # in order, as numbers only grow
        self._keys += len(keys)
        rows = [[*stage.usual, *(int(value(stage)) for value in TOLD.values())] for stage in stages]
        self._told = self._with(self._told, first, rows, 0)
        lists = [stage.advance for stage in stages]
        needs = [[stage.needs[token] for token in its] for stage, its in zip(stages, lists, strict=True)]
        self._advance = self._with(self._advance, first, lists, 0)
        self._lack = self._with(self._lack, first, needs, -1)
        broken, late = zip(*(stage.endings for stage in stages))
        self._broken = self._with(self._broken, first, broken, -1)
        self._late = self._with(self._late, first, late, -1)

    def _with(self, table: Tensor, first: int, lists: Sequence[Sequence[int]], filling: int) -> Tensor:
        """A table Int[N C] with lists as its rows from `first` on, each filled up; where it has no room, twice as long, so
        that a row is seldom copied."""
        last, width = first + len(lists), max([table.shape[1], *map(len, lists)])
        if last > len(table) or width > table.shape[1]:
            larger = table.new_full((max(last, 2 * len(table)), width), filling)
            larger[:first, : table.shape[1]] = table[:first]
            table = larger
        rows = [[*its, *[filling] * (width - len(its))] for its in lists]
        table[first:last] = torch.tensor(rows, dtype=torch.long, device=self.device).view(len(rows), width)
        return table


def _keys(ids: Iterable[tuple[int, Iterable[int]]], device: torch.device | str | None) -> Tensor:
    """Ids with their numbers, in order: Int[K]."""
    return torch.tensor(sorted(row * ROW + its for row, some in ids for its in some), dtype=torch.long, device=device)


def _among(x: Tensor, keys: Tensor) -> Tensor:
    """Which of x Int[S C] stand among keys Int[K], which are in order."""
    if not len(keys):
        return torch.zeros_like(x, dtype=torch.bool)
    return keys[torch.searchsorted(keys, x).clamp(max=len(keys) - 1)] == x
