"""A seeded, sharded, resumable order of batches, whose place is a small dictionary."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regard.batches.collate import Batch
from regard.batches.data import Examples
from regard.batches.limits import Fitted, LengthReport, Limits, View
from regard.batches.objectives import Objective, Translation
from regard.errors import UserError

_FULL, _BAND = 0.75, 2


def cut_batches(source: np.ndarray, target: np.ndarray, budget: int) -> list[tuple[int, int]]:
    """Columns Int[N] of both sides, in order -> (first, after) of batches of neighbours with rows × widest ≤ budget.

    A batch ends early, at three quarters of what would fit or more, where all its rows then have equal targets. An
    example wider than the budget stands alone.
    """
    width = np.maximum(source, target)
    changes = np.flatnonzero(target[1:] != target[:-1]) + 1
    ends = np.append(changes, len(target))
    found, at = [], 0
    while at < len(width):
        room = max(budget // int(width[at]), 1)
        widest = np.maximum.accumulate(width[at : at + room])
        rows = max(int(np.searchsorted(widest * np.arange(1, len(widest) + 1), budget, side="right")), 1)
        equal = int(ends[np.searchsorted(ends, at, side="right")]) - at
        if _FULL * rows <= equal < rows:
            rows = equal
        found.append((at, at + rows))
        at += rows
    return found


def by_length(source: np.ndarray, target: np.ndarray, budget: int, up: bool = True) -> np.ndarray:
    """Order Int[N] in which neighbours differ little: by bands of target lengths, within a band by source length, forth
    and back in turn.

    A band is as many lengths as fill two batches: where one length has more, it is a band by itself.
    """
    cost = np.bincount(target, weights=np.maximum(source, target))
    band = np.floor((np.cumsum(cost) - cost) / (_BAND * budget))
    band = np.unique(band, return_inverse=True)[1][target]
    order = np.lexsort((np.where(band % 2 == 0, source, -source), band))
    return order if up else order[::-1]


def deal(batches: list[np.ndarray], world: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Make the number of batches a multiple of `world`: the one with the most rows is halved as often as needed.

    Where all have one row and their number is still no multiple, the last few are given back, end to end, to be dealt
    later.
    """
    batches = list(batches)
    while len(batches) % world:
        most = max(range(len(batches)), key=lambda i: len(batches[i]))
        if len(batches[most]) < 2:
            last = len(batches) - len(batches) % world
            return batches[:last], np.concatenate(batches[last:])
        half = len(batches[most]) // 2
        batches[most : most + 1] = [batches[most][:half], batches[most][half:]]
    return batches, np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Place:
    """Where a stream is: `batch` batches of epoch `epoch` were given out on every rank; `carry`: examples left over from
    the epoch before."""

    epoch: int = 0
    batch: int = 0
    carry: tuple[int, ...] = ()


class _Epoch:
    """The batches of one epoch, on all ranks: a function of seed, epoch and world alone."""

    def __init__(self, fitted: Fitted, budget: int, seed: int, world: int, place: Place) -> None:
        self.number, self.carried = place.epoch, place.carry
        self.view = fitted.view(place.epoch)
        random = np.random.default_rng((seed, place.epoch))
        members = np.concatenate([fitted.kept, np.array(place.carry, dtype=np.int64)])
        members = members[random.permutation(len(members))]
        source, target = self.view.source[members], self.view.target[members]
        order = by_length(source, target, budget, up=bool(random.integers(2)))
        cuts = cut_batches(source[order], target[order], budget)
        members = members[order]
        shuffled = [members[slice(*cuts[i])] for i in random.permutation(len(cuts))]
        self.batches, left = deal(shuffled, world)
        self.left = tuple(left.tolist())

    @cached_property
    def fill(self) -> float:
        """Share of the columns of both sides that are real tokens."""
        view = self.view
        real = sum(int(view.source[rows].sum() + view.target[rows].sum()) for rows in self.batches)
        made = sum(len(rows) * int(view.source[rows].max() + view.target[rows].max()) for rows in self.batches)
        return real / made if made else 1.0


class _Maker:
    """Makes one batch after another from a place on; used by one thread at a time."""

    def __init__(self, stream: Stream, place: Place, epoch: _Epoch | None) -> None:
        self.parts = stream.fitted, stream.budget, stream.seed, stream.world
        self.rank, self.place, self.epoch = stream.rank, place, epoch

    def planned(self) -> _Epoch:
        """The epoch of the present place."""
        if self.epoch is None or (self.epoch.number, self.epoch.carried) != (self.place.epoch, self.place.carry):
            self.epoch = _Epoch(*self.parts, self.place)
        return self.epoch

    def next(self) -> tuple[Batch, Place, _Epoch]:
        """A batch, the place behind it, and its epoch."""
        fitted, _, seed, world = self.parts
        place, epoch = self.place, self.planned()
        at = place.batch * world + self.rank
        rows = epoch.batches[at]
        noise = np.random.default_rng((seed, place.epoch, at))
        batch = fitted.objective(epoch.view.pairs(rows), rows.tolist(), noise)
        if at + world < len(epoch.batches):
            self.place = Place(place.epoch, place.batch + 1, place.carry)
        else:
            self.place = Place(place.epoch + 1, 0, epoch.left)
        return batch, self.place, epoch


class Stream(Iterator[Batch]):
    """Batches for ever, epoch after epoch.

    Budget: rows × max(longest source, longest target) ≤ budget in every batch, in columns: for translation a source with
    its eos, a target with its bos or eos. It holds for one batch on one rank, so an update reads up to
    budget × accumulation × world of either side. No side may be longer than the budget: what is, is too long.

    Order: each epoch shuffles the examples, brings those of like lengths together (ties stay shuffled), cuts batches,
    and shuffles the batches, all from the seed and the epoch's number. Every example is in exactly one batch of an
    epoch; the short batches that remain are kept.

    Ranks: rank r of `world` takes every world-th batch, and all take equally many, so that none waits for ever: the
    batches with the most rows are halved until their number divides. Only where all batches have a single row can up to
    world - 1 examples be left; they are read in the next epoch (nothing is lost) and stand in the state.

    Limits: examples too long are found here, in the constructor, and `report` names their lines (class Limits). Where
    subwords are sampled, an example that sampling makes too long is split plainly in that epoch.

    prefetch: so many batches are made ahead in a thread; the state is that of the last batch given out. `objective` makes
    the batches. Raises UserError for a too long example with action "error", fewer examples than ranks, or none.
    """

    def __init__(
        self,
        data: Examples,
        budget: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        objective: Objective | None = None,
        limits: Limits | None = None,
        prefetch: int = 0,
    ) -> None:
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} of {world}")
        if budget < 2:
            raise UserError(f"the token budget of a batch is {budget}: it must be at least 2, a token and its end")
        self.limits = (limits or Limits()).at_most(budget)
        self.fitted = Fitted(data, objective or Translation(), self.limits)
        if len(self.fitted.kept) < world:
            raise UserError(f"{data.name}: {len(self.fitted.kept)} examples are too few for {world} processes")
        self.budget, self.seed, self.rank, self.world = budget, seed & (1 << 64) - 1, rank, world
        self._prefetch = prefetch
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="batches") if prefetch else None
        self._ahead: deque[Future[tuple[Batch, Place, _Epoch]]] = deque()
        self._place, self._epoch = Place(), None
        self._maker = _Maker(self, self._place, None)

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Batch:
        if self._pool is None:
            batch, self._place, self._epoch = self._maker.next()
            return batch
        self._fetch(max(1, self._prefetch))
        # Taken off the queue only when it is there: an interrupt in the wait must not lose a batch.
        batch, place, epoch = self._ahead[0].result()
        self._ahead.popleft()
        self._place, self._epoch = place, epoch
        self._fetch(self._prefetch)
        return batch

    def _fetch(self, count: int) -> None:
        while self._pool is not None and len(self._ahead) < count:
            self._ahead.append(self._pool.submit(self._maker.next))

    @property
    def report(self) -> LengthReport:
        """Which examples are too long."""
        return self.fitted.report

    @property
    def examples(self) -> int:
        """Examples that an epoch has."""
        return len(self.fitted.kept)

    @property
    def epoch(self) -> int:
        """Epochs given out completely."""
        return self._place.epoch

    @property
    def batches(self) -> int:
        """Batches that this epoch has on each rank."""
        return len(self._planned().batches) // self.world

    @property
    def fill(self) -> float:
        """Share of real tokens among the columns of this epoch's batches, both sides together."""
        return self._planned().fill

    def _planned(self) -> _Epoch:
        self._epoch = _Maker(self, self._place, self._epoch).planned()
        return self._epoch

    def _conditions(self) -> dict[str, Any]:
        limits = [self.limits.source, self.limits.target, self.limits.action]
        return {
            "seed": self.seed,
            "budget": self.budget,
            "world": self.world,
            "data": self.fitted.data.key,
            "limits": limits,
        }

    def state_dict(self) -> dict[str, Any]:
        """The exact place, JSON-able and alike on all ranks: epoch, batch, carry, and the conditions that the order
        depends on (seed, budget, world, data, limits). At the end of an epoch it is the beginning of the next."""
        place = self._place
        return {"epoch": place.epoch, "batch": place.batch, "carry": list(place.carry), **self._conditions()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a place, as if never stopped. Raises UserError if a condition of the order has changed since: there
        is no such place then."""
        for name, here in self._conditions().items():
            if state.get(name) != here:
                raise UserError(f"cannot resume the order of batches: {name} was {state.get(name)}, now it is {here}")
        for future in self._ahead:
            future.cancel()
        self._ahead.clear()
        self._place = Place(state["epoch"], state["batch"], tuple(state["carry"]))
        self._maker = _Maker(self, self._place, None)


class Ordered:
    """A corpus once over, for validation: an iterable of batches, longest examples first, each example exactly once.

    rank, world: this rank's share. Shares differ by a batch at most, so sums are to be gathered after the last batch, not
    after each. An example wider than the budget is a batch of its own. report: what was too long. len: batches.
    """

    def __init__(
        self,
        data: Examples,
        budget: int,
        objective: Objective | None = None,
        limits: Limits | None = None,
        rank: int = 0,
        world: int = 1,
    ) -> None:
        self.fitted = Fitted(data.plain, objective or Translation(), limits or Limits())
        self.report = self.fitted.report
        self.view: View = self.fitted.view(0)
        source, target = self.view.source[self.fitted.kept], self.view.target[self.fitted.kept]
        order = by_length(source, target, budget, up=False)
        members, cuts = self.fitted.kept[order], cut_batches(source[order], target[order], budget)
        self.batches = [members[first:after] for first, after in cuts][rank::world]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        for number, rows in enumerate(self.batches):
            yield self.fitted.objective(self.view.pairs(rows), rows.tolist(), np.random.default_rng(number))


def ordered(data: Examples, budget: int, **options: Any) -> Ordered:
    """Batches of a corpus once over, longest first; options as of Ordered: objective, limits, rank, world."""
    return Ordered(data, budget, **options)
