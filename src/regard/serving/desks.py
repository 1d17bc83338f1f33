"""Where a batch's answers go: straight to the tickets of those who asked, or through a pipe from a worker process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

from regard.errors import UserError
from regard.serving.queue import BrokenError, Unit
from regard.serving.served import AbandonedError, Served, Wish

log = logging.getLogger("regard.serving")

LOOK = 0.05
"""Seconds between two looks of a worker process at who is still there."""


class Tickets:
    """The desk of a batch in the process that holds the tickets."""

    def __init__(self, units: Sequence[Unit], more: Callable[[int, int], list[Unit]]) -> None:
        self.units, self._more = list(units), more

    def piece(self, place: int, text: str) -> None:
        """See Desk."""
        unit = self.units[place]
        unit.ticket.piece(unit.number, text)

    def answer(self, place: int, value: Any) -> None:
        """See Desk."""
        unit = self.units[place]
        unit.ticket.answer(unit.number, value)

    def gone(self, place: int) -> bool:
        """See Desk."""
        return self.units[place].gone

    def more(self, used: int, least: int) -> list[Any]:
        """See Desk."""
        units = self._more(used, least)
        self.units += units
        return [unit.payload for unit in units]

    def fail(self, place: int, error: BaseException) -> None:
        """This unit cannot be answered."""
        self.units[place].ticket.fail(error)


class Pipe:
    """The desk of a batch in a worker process. Messages out: what, place, value. Messages in: ("gone", places) at any time,
    ("more", payloads) when asked for."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.left: set[int] = set()
        self.looked = 0.0

    def piece(self, place: int, text: str) -> None:
        """See Desk."""
        self.pipe.send(("piece", place, text))

    def answer(self, place: int, value: Any) -> None:
        """See Desk."""
        self.pipe.send(("answer", place, value))

    def gone(self, place: int) -> bool:
        """See Desk."""
        now = time.monotonic()
        if now - self.looked > LOOK:
            self.looked = now
            while self.pipe.poll():
                self._hear()
        return place in self.left

    def more(self, used: int, least: int) -> list[Any]:
        """See Desk."""
        self.pipe.send(("more", used, least))
        while (found := self._hear()) is None:
            pass
        return found

    def fail(self, place: int, error: BaseException) -> None:
        """This unit cannot be answered."""
        self.pipe.send(("fail", place, error))

    def _hear(self) -> list[Any] | None:
        what, value = self.pipe.recv()
        if what == "gone":
            self.left |= set(value)
            return None
        return value


class _Kept:
    """A desk that knows which places were answered. alone: it stands for one that is tried a second time."""

    def __init__(self, desk: Any, places: list[int], alone: bool = False) -> None:
        self.desk, self.places, self.alone = desk, places, alone
        self.answered: set[int] = set()
        self.payloads: list[Any] = []

    def piece(self, place: int, text: str) -> None:
        if not self.alone:  # pieces are told once
            self.desk.piece(self.places[place], text)

    def answer(self, place: int, value: Any) -> None:
        self.answered.add(place)
        self.desk.answer(self.places[place], value)

    def gone(self, place: int) -> bool:
        return self.desk.gone(self.places[place])

    def more(self, used: int, least: int) -> list[Any]:
        if self.alone:
            return []
        found = self.desk.more(used, least)
        self.places += range(len(self.places), len(self.places) + len(found))
        self.payloads += found
        return found

    def nobody(self) -> bool:
        """Whether nobody waits for what is not answered yet."""
        return all(self.gone(place) for place in range(len(self.places)) if place not in self.answered)


class Worker:
    """Does batches of one model. Used by one thread of one process."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self._now: _Kept | None = None
        self._thread = 0
        model = served.loaded.model
        half = model.encoder if model.decoder is None else model.decoder
        self._hook = half.register_forward_pre_hook(self._look)

    def _look(self, module: Any, arguments: Any) -> None:
        """Before each step of a search of this thread: go no further if all who asked are gone."""
        if self._now is not None and self._thread == threading.get_ident() and self._now.nobody():
            raise AbandonedError

    def close(self) -> None:
        """Leave the model as it was."""
        self._hook.remove()

    def do(self, wish: Wish, payloads: Sequence[Any], desk: Any) -> None:
        """Answer a batch, whatever happens. If it fails, its units are tried one by one, so that one that cannot be answered
        takes nothing from the others."""
        kept = _Kept(desk, list(range(len(payloads))))
        kept.payloads = list(payloads)
        error = self._try(wish, payloads, kept)
        left = [place for place in range(len(kept.places)) if place not in kept.answered]
        if error is None or not left:
            return
        if len(kept.places) == 1:
            desk.fail(0, error)
            return
        for place in left:
            alone = _Kept(desk, [place], alone=True)
            error = self._try(wish, [kept.payloads[place]], alone)
            if error is not None and not alone.answered:
                desk.fail(place, error)

    def _try(self, wish: Wish, payloads: Sequence[Any], desk: _Kept) -> Exception | None:
        self._now, self._thread = desk, threading.get_ident()
        try:
            self.served.run(wish, payloads, desk)
        except AbandonedError:
            return None
        except UserError as error:
            return error
        except Exception as error:
            log.exception("%s: a batch of %d failed", self.served.name, len(payloads))
            return BrokenError(f"the model could not answer ({type(error).__name__}); the server's log says more")
        finally:
            self._now = None
        return None
