"""A seeded, shared, resumable order of batches, whose place is a small dictionary."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np

from regard.batches.collate import Batch
from regard.batches.data import Examples
from regard.batches.limits import Fitted, LengthReport, Limits, View
from regard.batches.objectives import Objective, Translation
from regard.batches.windows import Streamed, Whole, Windows, windows_of
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


@dataclass(frozen=True)
class Share:
    """Which part of each update a process reads: number `rank` of `world`; `accumulate`: batches of an update."""

    rank: int = 0
    world: int = 1
    accumulate: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world or self.accumulate < 1:
            raise ValueError(f"rank {self.rank} of {self.world}, {self.accumulate} batches an update")

    def of(self, count: int) -> list[tuple[int, int, int]]:
        """Of an update of so many batches what this rank reads: (batch, part, parts). Batches are cut in the fewest parts
        whose number the ranks divide, and each rank has equally many."""
        parts = self.world // gcd(count, self.world)
        each = count * parts // self.world
        return [(at // parts, at % parts, parts) for at in range(self.rank * each, (self.rank + 1) * each)]


@dataclass(frozen=True)
class Place:
    """Where a stream is: `batch` batches of window `window` of epoch `epoch` were given out, on all ranks together."""

    epoch: int = 0
    window: int = 0
    batch: int = 0


class _Planned:
    """The batches of a window: a function of seed, epoch and window alone, not of the ranks."""

    def __init__(self, source: Whole | Windows, budget: int, seed: int, place: Place) -> None:
        self.where = place.epoch, place.window
        self.count = source.count(place.epoch)
        self.fitted, self.view = source.open(*self.where)
        random = np.random.default_rng((seed, place.epoch, place.window) if place.window else (seed, place.epoch))
        members = self.fitted.kept[random.permutation(len(self.fitted.kept))]
        source_columns, target_columns = self.view.source[members], self.view.target[members]
        order = by_length(source_columns, target_columns, budget, up=bool(random.integers(2)))
        cuts = cut_batches(source_columns[order], target_columns[order], budget)
        members = members[order]
        self.batches = [members[slice(*cuts[i])] for i in random.permutation(len(cuts))]

    @cached_property
    def fill(self) -> float:
        """Share of the columns of both sides that are real tokens."""
        view = self.view
        real = sum(int(view.source[rows].sum() + view.target[rows].sum()) for rows in self.batches)
        made = sum(len(rows) * int(view.source[rows].max() + view.target[rows].max()) for rows in self.batches)
        return real / made if made else 1.0


class _Maker:
    """Makes one update's batches after another's from a place on; used by one thread at a time."""

    def __init__(self, stream: Stream, place: Place, planned: _Planned | None) -> None:
        self.parts = stream.source, stream.budget, stream.seed
        self.share, self.place, self.now = stream.share, place, planned

    def planned(self) -> _Planned:
        """The window of the present place."""
        if self.now is None or self.now.where != (self.place.epoch, self.place.window):
            self.now = _Planned(*self.parts, self.place)
        return self.now

    def next(self) -> tuple[list[Batch], Place, _Planned]:
        """This rank's batches of an update, the place behind it, and its window."""
        place, planned = self.place, self.planned()
        group = planned.batches[place.batch : place.batch + self.share.accumulate]
        made = [self._part(place, place.batch + at, part, parts) for at, part, parts in self.share.of(len(group))]
        after = place.batch + len(group)
        if after < len(planned.batches):
            self.place = Place(place.epoch, place.window, after)
        elif place.window + 1 < planned.count:
            self.place = Place(place.epoch, place.window + 1)
        else:
            self.place = Place(place.epoch + 1)
        return made, self.place, planned

    def _part(self, place: Place, at: int, part: int, parts: int) -> Batch:
        planned, seed = self.planned(), self.parts[2]
        rows = planned.batches[at]
        noise = np.random.default_rng((seed, place.epoch, at, place.window) if place.window else (seed, place.epoch, at))
        batch = planned.fitted.objective(planned.view.pairs(rows), rows.tolist(), noise)
        return batch if parts == 1 else batch.part(part, parts)


class Stream(Iterator[Batch]):
    """Batches for ever, epoch after epoch, an update's at a time.

    Budget: rows × max(longest source, longest target) ≤ budget in every batch, in columns: for translation a source with
    its eos, a target with its bos or eos. No side may be longer than the budget: what is, is too long. An update has
    `share.accumulate` batches, at the end of a window fewer.

    Order: each epoch shuffles the examples, brings those of like lengths together (ties stay shuffled), cuts batches,
    and shuffles the batches, all from the seed and the epoch's number. Every example is in exactly one batch of an
    epoch; the short batches that remain are kept. Of a corpus that is larger than memory this is done to a window after
    the other.

    Ranks: the order and the updates are the same for any number of ranks, which share each update's batches: whole ones
    where their number divides, else parts of their rows. All have equally many; a rank whose part would be empty has a row
    whose `target_tokens` are 0, which is to count nothing.

    Limits: examples too long are found here, in the constructor, and `report` names their lines (class Limits). Where
    subwords are sampled, an example that sampling makes too long is split plainly in that epoch.

    prefetch: so many updates are made ahead in a thread; the state is that of the last one given out. `objective` makes
    the batches. Raises UserError for a too long example with action "error", or no examples.
    """

    def __init__(
        self,
        data: Examples | Streamed,
        budget: int,
        seed: int,
        share: Share | None = None,
        objective: Objective | None = None,
        limits: Limits | None = None,
        prefetch: int = 0,
    ) -> None:
        if budget < 2:
            raise UserError(f"the token budget of a batch is {budget}: it must be at least 2, a token and its end")
        self.data, self.share = data, share or Share()
        self.limits = (limits or Limits()).at_most(budget)
        self.source = windows_of(data, objective or Translation(), self.limits)
        self.budget, self.seed = budget, seed & (1 << 64) - 1
        self._prefetch = prefetch
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="batches") if prefetch else None
        self._ahead: deque[Future[tuple[list[Batch], Place, _Planned]]] = deque()
        self._rest: deque[Batch] = deque()
        self._place, self._now = Place(), None
        self._maker = _Maker(self, self._place, None)

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Batch:
        """The next batch; the state is that after the whole update that it belongs to."""
        if not self._rest:
            self._rest.extend(self.update())
        return self._rest.popleft()

    def update(self) -> list[Batch]:
        """This rank's batches of the next update."""
        if self._pool is None:
            made, self._place, self._now = self._maker.next()
            return made
        self._fetch(max(1, self._prefetch))
        # Taken off the queue only when it is there: an interrupt in the wait must not lose a batch.
        made, place, now = self._ahead[0].result()
        self._ahead.popleft()
        self._place, self._now = place, now
        self._fetch(self._prefetch)
        return made

    def _fetch(self, count: int) -> None:
        while self._pool is not None and len(self._ahead) < count:
            self._ahead.append(self._pool.submit(self._maker.next))

    @property
    def report(self) -> LengthReport:
        """Which examples are too long; of a streamed corpus those of its first window."""
        return self.source.report

    @property
    def examples(self) -> int:
        """Examples that an epoch has; of a streamed corpus its first window."""
        return self.source.examples

    @property
    def epoch(self) -> int:
        """Epochs given out completely."""
        return self._place.epoch

    @property
    def batches(self) -> int:
        """Batches that this epoch has, on all ranks together; of a streamed corpus about so many."""
        planned = self._planned()
        return len(planned.batches) * planned.count

    @property
    def fill(self) -> float:
        """Share of real tokens among the columns of this window's batches, both sides together."""
        return self._planned().fill

    def lines(self, batches: Iterable[Batch]) -> list[int]:
        """Where the examples of batches of the last update stand in their files."""
        assert self._now is not None
        lines = self._now.fitted.data.plain.lines
        return sorted(int(lines[number]) for batch in batches for number in batch.examples)

    def _planned(self) -> _Planned:
        self._now = _Maker(self, self._place, self._now).planned()
        return self._now

    def _conditions(self) -> dict[str, Any]:
        limits = [self.limits.source, self.limits.target, self.limits.action]
        return {"seed": self.seed, "budget": self.budget, "data": self.data.key, "limits": limits}

    def state_dict(self) -> dict[str, Any]:
        """The exact place, JSON-able and alike on all ranks and for any number of them: epoch, window, batch, and the
        conditions that the order depends on (seed, budget, data, limits). At the end of an epoch it is the beginning of the
        next."""
        return {**vars(self._place), **self._conditions()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a place, as if never stopped. Raises UserError if a condition of the order has changed since: there
        is no such place then."""
        for name, here in self._conditions().items():
            if state.get(name) != here:
                raise UserError(f"cannot resume the order of batches: {name} was {state.get(name)}, now it is {here}")
        for future in self._ahead:
            future.cancel()
        self._ahead.clear()
        self._rest.clear()
        self._place = Place(state["epoch"], state.get("window", 0), state["batch"])
        self._maker = _Maker(self, self._place, None)


class Ordered:
    """A corpus once over (of a streamed one its first window), for validation: an iterable of batches, longest examples
    first, each example exactly once.

    rank, world: this rank's share. Shares differ by a batch at most, so sums are to be gathered after the last batch, not
    after each. An example wider than the budget is a batch of its own. report: what was too long. len: batches.
    """

    def __init__(
        self,
        data: Examples | Streamed,
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


def ordered(data: Examples | Streamed, budget: int, **options: Any) -> Ordered:
    """Batches of a corpus once over, longest first; options as of Ordered: objective, limits, rank, world."""
    return Ordered(data, budget, **options)
