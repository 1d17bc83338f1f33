"""What waits for a model: units of work, the tickets of those who asked, and which units go into a batch together."""

from __future__ import annotations

import bisect
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import Lock
from typing import Any


class OverloadError(Exception):
    """The queue is full. seconds: when to try again."""

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds


class TimeLimitError(Exception):
    """A request took longer than it may."""


class StoppingError(Exception):
    """The server is going down and takes nothing on."""


class BrokenError(Exception):
    """The work failed for a reason that is not the asker's."""


Listen = Callable[[int, str | None, Any], None]


class Ticket:
    """What one request waits for: an answer a unit, in order. Safe to use from any thread.

    listen(number, text, None): called, from another thread, with what has become certain of the answer to a unit;
    listen(number, None, answer) with the answer. name: of the request, in logs.
    """

    def __init__(self, count: int, seconds: float, listen: Listen | None = None, name: str = "") -> None:
        self.future: Future[list[Any]] = Future()
        self.answers: list[Any] = [None] * count
        self.limit, self.deadline = seconds, time.monotonic() + seconds
        self.listen, self.name = listen, name
        self._missing, self._lock = count, Lock()
        if count == 0:
            self.future.set_result([])

    @property
    def gone(self) -> bool:
        """Whether nobody waits any more: answered, failed, cancelled or out of time."""
        return self.future.done() or time.monotonic() > self.deadline

    @property
    def left(self) -> float:
        """Seconds until the time limit."""
        return max(0.0, self.deadline - time.monotonic())

    def cancel(self) -> None:
        """Nobody waits any more: what has not begun never will, and what runs stops once all of its batch is gone."""
        self.future.cancel()

    def result(self) -> list[Any]:
        """All answers, waiting for them. TimeLimitError, or whatever went wrong."""
        try:
            return self.future.result(self.left)
        except TimeoutError:
            self.expire()
            return self.future.result()

    def expire(self) -> None:
        """Fail because it took too long."""
        self.fail(TimeLimitError(f"the answer was not ready within {self.limit:g} seconds, the limit of this server"))

    def piece(self, number: int, text: str) -> None:
        """Pass on what has become certain of an answer."""
        if self.listen is not None and not self.future.done():
            self.listen(number, text, None)

    def answer(self, number: int, value: Any) -> None:
        """Take the answer to a unit."""
        if self.future.done():
            return
        if self.listen is not None:
            self.listen(number, None, value)
        with self._lock:
            self.answers[number] = value
            self._missing -= 1
            last = self._missing == 0
        if last:
            with suppress(InvalidStateError):  # cancelled in this very moment by another thread
                self.future.set_result(self.answers)

    def fail(self, error: BaseException) -> None:
        """Give up with this error, if it is not done already."""
        with suppress(InvalidStateError):
            self.future.set_exception(error)


class Unit:
    """One sentence, prompt or text, and what is wished for it. size: tokens that the model reads. alone: whether it shares
    no batch."""

    __slots__ = ("alone", "number", "payload", "size", "tag", "ticket", "wish")

    def __init__(
        self, ticket: Ticket, number: int, payload: Any, size: int, wish: Hashable = None, alone: bool = False
    ) -> None:
        self.ticket, self.number, self.payload, self.size, self.wish = ticket, number, payload, size, wish
        self.alone, self.tag = alone, 0.0

    def like(self, other: Unit) -> bool:
        """Whether the two may share a batch."""
        return self.wish == other.wish and not self.alone and not other.alone

    @property
    def gone(self) -> bool:
        """Whether nobody waits for it."""
        return self.ticket.gone


class Waiting:
    """A bounded queue that is fair to requests, not to sentences: one sentence does not stand behind another's thousand.

    Each unit has a tag: the work handed out when its request came, and the request's own units before it (start-time fair
    queueing, Goyal et al. 1996, all requests of equal weight). The least tag is next. Not safe to use from several threads:
    whoever owns it holds a lock. most: units that may wait.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.units: list[Unit] = []
        self.clock = 0.0
        self.tokens = 0

    def __len__(self) -> int:
        return len(self.units)

    def put(self, units: Sequence[Unit], seconds: Callable[[], int]) -> None:
        """Take the units of one request, all or none; an empty queue has room for any. OverloadError: it is full, and
        seconds() says when to try again."""
        if self.units and len(self.units) + len(units) > self.most:
            self.drop()
        if self.units and len(self.units) + len(units) > self.most:
            raise OverloadError(f"{len(self.units)} sentences are waiting already: try again later", seconds())
        tag = self.clock
        for unit in units:
            unit.tag = tag
            tag += unit.size
            bisect.insort(self.units, unit, key=lambda u: u.tag)
        self.tokens += sum(unit.size for unit in units)

    def take(self, budget: int, least: int = 1) -> list[Unit]:
        """The next batch: the first in turn, and others like it, those of like length first, as long as the size of the
        batch times its longest (or `least`) stays within `budget`."""
        self.drop()
        if not self.units:
            return []
        lead = self.units[0]
        batch, longest = [lead], max(lead.size, least)
        soon: list[Unit] = []
        room = 4 * budget  # those whose turn is near compete by length, the others wait
        for unit in self.units[1:]:
            if room <= 0:
                break
            if unit.like(lead):
                soon.append(unit)
                room -= unit.size
        for unit in sorted(soon, key=lambda u: abs(u.size - lead.size)):
            if max(longest, unit.size) * (len(batch) + 1) <= budget:
                batch.append(unit)
                longest = max(longest, unit.size)
        chosen = set(map(id, batch))
        self.units = [unit for unit in self.units if id(unit) not in chosen]
        self.tokens -= sum(unit.size for unit in batch)
        self.clock = max(self.clock, lead.tag)
        return batch

    def drop(self) -> None:
        """Forget units that nobody waits for; those out of time are told so."""
        left = []
        for unit in self.units:
            if not unit.gone:
                left.append(unit)
                continue
            self.tokens -= unit.size
            unit.ticket.expire()
        self.units = left

    def fail(self, error: BaseException) -> None:
        """Give up all that waits."""
        for unit in self.units:
            unit.ticket.fail(error)
        self.units, self.tokens = [], 0
