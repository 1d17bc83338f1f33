"""A shortlist of the vocabulary: in each batch only target tokens that are likely beside its source tokens are scored.

The output layer and the search over its logits are most of a decoding step. Which tokens are likely, a table says that is
learned from parallel text by IBM's Model 1 (Brown et al. 1993; used so by Jean et al. 2015, section 3.2). Log-probabilities
are then those among the tokens of the list, a little higher than among all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from regard.decoding.banks import Demand
from regard.decoding.options import Hypothesis, Search
from regard.errors import UserError
from regard.files import write_bytes
from regard.layout import Layout

FILE = "shortlist.safetensors"
COMMON, NEAR, ROUNDS = 200, 40, 5
"""Tokens that stand on every list, tokens for each source token, and iterations of the learning."""


@dataclass(frozen=True, eq=False)
class Shortlist:
    """common: Int[C], target ids of every list, the most frequent. near: Int[V N], for each source id the target ids that it
    is most likely translated by, -1 where there are not so many."""

    common: Tensor
    near: Tensor

    @classmethod
    def learn(
        cls, pairs: Iterable[tuple[Sequence[int], Sequence[int]]], vocab_size: int, common: int = COMMON, near: int = NEAR
    ) -> Shortlist:
        """From pairs of token ids. vocab_size: of the source. UserError: there are none."""
        links = _Links(pairs)
        if not len(links.source):
            raise UserError("a shortlist is learned from pairs of texts, and there are none")
        counts = torch.bincount(links.tokens)
        often = counts.argsort(descending=True, stable=True)[: min(common, int((counts > 0).sum()))]
        chance = links.chances(ROUNDS)
        order = chance.argsort(descending=True, stable=True)
        order = order[links.source[order].argsort(stable=True)]
        source, target = links.source[order], links.target[order]
        first = torch.searchsorted(source, source)
        rank = torch.arange(len(source)) - first
        kept = rank < near
        table = torch.full((vocab_size, near), -1, dtype=torch.int32)
        table[source[kept], rank[kept]] = target[kept].int()
        return cls(often.int(), table)

    def of(self, sources: Tensor, needed: Iterable[int]) -> Tensor:
        """The ids to be scored for source ids of any shape, with the `needed` ones, in ascending order."""
        near = self.near[sources.unique().cpu()].flatten().long()
        more = torch.tensor(list(needed), dtype=torch.long)
        return torch.cat([self.common.long(), near[near >= 0], more]).unique()

    def save(self, folder: str | Path) -> Path:
        """Write it into a model folder; gives the file."""
        path = Path(folder) / FILE
        write_bytes(path, save({"common": self.common.contiguous(), "near": self.near.contiguous()}))
        return path

    @classmethod
    def open(cls, folder: str | Path, source: int, target: int) -> Shortlist | None:
        """That of a model folder, None where there is none. source, target: sizes of the vocabularies that it must fit."""
        path = Path(folder) / FILE
        if not path.is_file():
            return None
        try:
            found = cls(**load_file(path))
        except Exception as error:
            raise UserError(f"{path}: is no shortlist ({error}); make it with regard shortlist") from None
        if len(found.near) != source or max(int(found.near.max()), int(found.common.max())) >= target:
            raise UserError(f"{path}: is of other vocabularies than the model's; make it anew with regard shortlist")
        return found


class _Links:
    """Every source token of a pair beside every target token: which distinct (source, target) there are, and for each link
    its number among them and the target token's place in the corpus. tokens: all target tokens."""

    def __init__(self, pairs: Iterable[tuple[Sequence[int], Sequence[int]]]) -> None:
        sides: tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]] = ([], [], [], [])
        place = 0
        for one, other in pairs:
            source, target = torch.tensor(list(dict.fromkeys(one))), torch.tensor(list(other))
            if not len(source) or not len(target):
                continue
            sides[0].append(source.repeat(len(target)))
            sides[1].append(target.repeat_interleave(len(source)))
            sides[2].append(torch.arange(place, place + len(target)).repeat_interleave(len(source)))
            sides[3].append(target)
            place += len(target)
        source, target, self.places, self.tokens = (torch.cat(s).long() if s else torch.zeros(0).long() for s in sides)
        self.count = place
        size = int(target.max()) + 1 if place else 1
        found, self.numbers = (source * size + target).unique(return_inverse=True)
        self.source, self.target = found // size, found % size

    def chances(self, rounds: int) -> Tensor:
        """Float[links]: probability of the target token given the source token, after so many rounds of expectation and
        maximisation from even ones."""
        chance = torch.ones(len(self.source))
        sources = int(self.source.max()) + 1
        for _ in range(rounds):
            share = chance[self.numbers]
            share /= torch.zeros(self.count).index_add_(0, self.places, share)[self.places]
            count = torch.zeros(len(chance)).index_add_(0, self.numbers, share)
            chance = count / torch.zeros(sources).index_add_(0, self.source, count)[self.source]
        return chance


class Shortened:
    """A model that writes the tokens of a list alone. The ids that it reads and gives are places in the list."""

    def __init__(self, model: Any, ids: Tensor) -> None:
        self._model, self.ids = model, ids.to(model.device)
        self._project = model.head.narrowed(self.ids)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def step(self, tokens: Tensor, state: Any, layout: Layout | None = None) -> Tensor:
        """As `Model.step`: logits Float[R N] of the list's tokens."""
        layout = Layout.unpadded(tokens.shape[1], state.length, tokens.device) if layout is None else layout
        return self._project(self._model.decoder(self.ids[tokens], state, layout)[:, -1])


@dataclass(frozen=True)
class Shortening:
    """One batch on its shortlist: what the search is given in place of the model, its options, marks and prefixes."""

    model: Shortened
    options: Search
    bos: int
    eos: int
    prefix: Sequence[Sequence[int]] | None

    @classmethod
    def of(
        cls,
        model: Any,
        shortlist: Shortlist,
        sources: Tensor,
        options: Search,
        marks: tuple[int, int],
        prefix: Sequence[Sequence[int] | Demand] | None,
    ) -> Shortening | None:
        """None where phrases are asked for: what may be written is then decided token by token over all of them."""
        begins, rules = Demand.divided(prefix)
        if rules is not None:
            return None
        first = [] if options.first_token is None else [options.first_token]
        needed = {*marks, *first, *(token for ids in begins or () for token in ids)}
        ids = shortlist.of(sources, needed)
        place = {number: at for at, number in enumerate(ids.tolist())}
        its = replace(
            options,
            suppress_tokens=tuple(place[n] for n in options.suppress_tokens if n in place),
            first_token=place[first[0]] if first else None,
        )
        inside = None if begins is None else [[place[n] for n in begin] for begin in begins]
        return cls(Shortened(model, ids), its, place[marks[0]], place[marks[1]], inside)

    def ids(self, places: Sequence[int]) -> list[int]:
        """Token ids of places in the list."""
        return [int(number) for number in self.model.ids[torch.tensor(places, dtype=torch.long)]]

    def answers(self, found: list[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """Hypotheses of the search, with token ids."""
        return [[replace(one, ids=self.ids(one.ids)) for one in each] for each in found]
