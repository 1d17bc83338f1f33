"""What the candidates of a batch still need: looked up in tables, and asked of the automaton where phrases are touched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from regard.decoding.phrases import Rules, Stage

ROW = 1 << 32
"""An id with a number (of a sentence, of a stage) as one number: number · ROW + id."""


class Needs:
    """`Stage.need` of many candidates at once. rules: of each sentence, over one lexicon. eos: the end mark.

    Stages are numbered as they come, and each has a row in tables. Of most ids only their class counts (`Stage.usual`);
    those that touch a phrase of the sentence, or go on with what is begun, are asked for one by one."""

    def __init__(self, rules: Sequence[Rules], eos: int, device: torch.device | str | None) -> None:
        self.eos, self.device = eos, device
        self.missing = torch.zeros(0, dtype=torch.long, device=device)
        """Int[N], `Stage.missing`."""
        self._classes = torch.tensor([*rules[0].lexicon.classes, 0], device=device)
        self._touching = _keys(((number, its.touching) for number, its in enumerate(rules)), device)
        self._stages: list[Stage] = []
        self._numbers: dict[Stage, int] = {}
        self._usual = torch.zeros(0, 7, dtype=torch.long, device=device)
        self._ended, self._begun, self._opening = self.missing, self.missing, self.missing > 0
        self._advance = self._lack = torch.zeros(0, 0, dtype=torch.long, device=device)

    def numbers(self, stages: Sequence[Stage]) -> Tensor:
        """Int[R]: the numbers of stages."""
        new = [stage for stage in dict.fromkeys(stages) if stage not in self._numbers]
        if new:
            self._add(new)
        return torch.tensor([self._numbers[stage] for stage in stages], device=self.device)

    def of(self, numbers: Tensor, sentences: Tensor, token: Tensor, there: Tensor) -> Tensor:
        """Int[S C]: tokens that are still needed after each candidate; at least 1 if it is an end mark that comes too early.
        numbers, sentences, token: Int[S C], the stage and the sentence that a candidate goes on with, and its token. there:
        Bool[S C], the candidates that count; of others nothing is told."""
        need = self._usual[numbers, self._classes[token.clamp(max=len(self._classes) - 1)]]
        near = _among(sentences * ROW + token, self._touching) | _among(numbers * ROW + token, self._begun)
        near = (near | self._opening[numbers]) & there & (token != self.eos)
        exact = []
        for number, its in zip(numbers[near].tolist(), token[near].tolist(), strict=True):
            known = self._stages[number].needs.get(its)
            exact.append(self._stages[number].need(its) if known is None else known)
        need[near] = torch.tensor(exact, dtype=need.dtype, device=need.device)
        return torch.where(token == self.eos, self._ended[numbers], need)

    def onward(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The tokens that bring the phrases of stages Int[R] nearer, and what is needed after them (-1: there is none): both
        Int[R C]."""
        return self._advance[numbers], self._lack[numbers]

    def _add(self, stages: Sequence[Stage]) -> None:
        """Number these stages."""
        first, device = len(self._stages), self.device
        self._stages += stages
        self._numbers.update((stage, first + at) for at, stage in enumerate(stages))
        begun = _keys(((first + at, stage.goes_on) for at, stage in enumerate(stages)), device)
        self._begun = torch.cat([self._begun, begun])  # in order, as numbers only grow
        self._usual = torch.cat([self._usual, torch.tensor([stage.usual for stage in stages], device=device)])
        missing = torch.tensor([stage.missing for stage in stages], device=device)
        self.missing = torch.cat([self.missing, missing])
        ended = torch.tensor([max(stage.missing, not stage.ends) for stage in stages], device=device)
        self._ended = torch.cat([self._ended, ended])
        opening = torch.tensor([bool(stage.seen.rest) for stage in stages], device=device)
        self._opening = torch.cat([self._opening, opening])
        lists = [stage.advance for stage in stages]
        needs = [[stage.needs[token] for token in its] for stage, its in zip(stages, lists, strict=True)]
        self._advance, self._lack = _below(self._advance, lists, 0), _below(self._lack, needs, -1)


def _below(table: Tensor, lists: Sequence[Sequence[int]], filling: int) -> Tensor:
    """A table Int[N C] with lists as further rows, all filled up to the same width."""
    width = max(table.shape[1], *map(len, lists))
    rows = [[*its, *[filling] * (width - len(its))] for its in lists]
    new = torch.tensor(rows, dtype=torch.long, device=table.device).view(len(rows), width)
    return torch.cat([functional.pad(table, (0, width - table.shape[1]), value=filling), new])


def _keys(ids: Iterable[tuple[int, Iterable[int]]], device: torch.device | str | None) -> Tensor:
    """Ids with their numbers, in order: Int[K]."""
    return torch.tensor(sorted(row * ROW + its for row, some in ids for its in some), dtype=torch.long, device=device)


def _among(x: Tensor, keys: Tensor) -> Tensor:
    """Which of x Int[S C] stand among keys Int[K], which are in order."""
    if not len(keys):
        return torch.zeros_like(x, dtype=torch.bool)
    return keys[torch.searchsorted(keys, x).clamp(max=len(keys) - 1)] == x
