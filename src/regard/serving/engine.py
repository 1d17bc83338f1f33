"""The engine: many people's requests, each model's in batches across them all. No HTTP in it.

    with Engine([Served("en-fr", regard.load("runs/en-fr"))]) as engine:
        ticket = engine.submit("en-fr", wish, [Source("Two dogs run.")])
        [answer] = ticket.result()

Each model has a queue and its own workers: a thread of this process, or processes of one thread each. Requests are told when
their answers are ready, fail at their time limit, and may be cancelled at any moment.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.errors import UserError
from regard.serving.desks import Tickets, Worker
from regard.serving.limits import Limits
from regard.serving.queue import Listen, OverloadError, StoppingError, Ticket, Unit, Waiting
from regard.serving.served import Served, Wish
from regard.serving.workers import Remote

log = logging.getLogger("regard.serving")


@dataclass
class Statistics:
    """Counts of one model since it was loaded. sizes: how many batches had so many units (1, 2, 4 … at most)."""

    requests: int = 0
    refused: int = 0
    cancelled: int = 0
    units: int = 0
    tokens: int = 0
    batches: int = 0
    seconds: float = 0.0
    sizes: Counter[int] = field(default_factory=Counter)
    rate: float = 0.0
    """Tokens a second that were read lately."""

    def count(self, units: Sequence[Unit], seconds: float) -> None:
        """A batch was done."""
        tokens = sum(unit.size for unit in units)
        self.units += len(units)
        self.tokens += tokens
        self.batches += 1
        self.seconds += seconds
        self.sizes[1 << (len(units) - 1).bit_length()] += 1
        self.rate += 0.2 * (tokens / max(seconds, 1e-6) - self.rate) if self.rate else tokens / max(seconds, 1e-6)


class Lane:
    """One model's queue and workers."""

    def __init__(self, served: Served, limits: Limits, workers: int) -> None:
        self.served, self.limits = served, limits
        self.statistics = Statistics()
        self.waiting = Waiting(limits.waiting)
        self.changed = threading.Condition()
        self.desks: list[Tickets] = []
        self.last = 1
        self.closed = False
        makers = [Worker] if workers == 1 else [Remote] * workers
        self.threads = [
            threading.Thread(target=self._work, args=(make(served),), name=f"regard {served.name} {number}", daemon=True)
            for number, make in enumerate(makers, 1)
        ]
        for thread in self.threads:
            thread.start()

    def put(self, units: Sequence[Unit]) -> None:
        """Let units wait for their turn. OverloadError, StoppingError."""
        with self.changed:
            if self.closed:
                raise StoppingError("the server is stopping")
            try:
                self.waiting.put(units, self._seconds)
            except OverloadError:
                self.statistics.refused += 1
                raise
            self.statistics.requests += 1
            self.changed.notify_all()

    def _seconds(self) -> int:
        """About how long what waits will take, from 1 to 60 seconds."""
        rate = self.statistics.rate * len(self.threads)
        return min(60, max(1, math.ceil(self.waiting.tokens / rate))) if rate else 1

    def _take(self) -> list[Unit]:
        """The next batch, waiting for one; nothing once the lane is closed and empty."""
        budget = self.limits.batch_tokens
        with self.changed:
            while True:
                idle = not self.desks
                while not len(self.waiting) and not self.closed:
                    self.changed.wait()
                if idle and not self.closed:
                    self._gather(budget)
                batch = self.waiting.take(budget)
                if batch:
                    return batch
                if self.closed:
                    return []

    def _gather(self, budget: int) -> None:
        """Give those a moment who ask at about the same time: longer where many were answered together just now, since they
        may all ask again."""
        until = time.monotonic() + self.limits.window * min(8.0, max(1.0, self.last / 8))
        while (left := until - time.monotonic()) > 0:
            if self.waiting.tokens >= budget or len(self.waiting) >= self.last > 1:
                return
            self.changed.wait(left)

    def _more(self, like: Unit, used: int, least: int) -> list[Unit]:
        """Units that may join a batch that runs already, unless somebody who cannot is next in turn."""
        tokens = self.limits.cache_tokens - used
        with self.changed:
            if not len(self.waiting):
                return []
            self.waiting.drop()
            first = self.waiting.units[:1]
            if not first or not first[0].like(like) or max(first[0].size, least) > tokens:
                return []
            return self.waiting.take(min(tokens, self.limits.batch_tokens), least)

    def _work(self, worker: Any) -> None:
        while batch := self._take():
            began = time.perf_counter()
            desk = Tickets(batch, lambda used, least, lead=batch[0]: self._more(lead, used, least))
            self.desks.append(desk)
            try:
                worker.do(batch[0].wish, [unit.payload for unit in batch], desk)
            finally:
                with self.changed:
                    self.desks.remove(desk)
                    self.last = len(desk.units)
                    self.statistics.count(desk.units, time.perf_counter() - began)
                    self.statistics.cancelled += sum(unit.ticket.future.cancelled() for unit in desk.units)
                    self.changed.notify_all()
        worker.close()

    def close(self) -> None:
        """Take nothing new; what waits is still done."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()

    def end(self, until: float) -> None:
        """Wait for the workers until that time (monotonic), then give up what is left: they stop at their next step."""
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
        error = StoppingError("the server is stopping")
        with self.changed:
            self.waiting.fail(error)
            for desk in self.desks:
                for unit in desk.units:
                    unit.ticket.fail(error)
        for thread in self.threads:
            thread.join(5.0)


class Engine:
    """Several models and their limits. workers: per model; 1: a thread of this process, more: so many processes (CPU)."""

    def __init__(self, models: Iterable[Served], limits: Limits | None = None, workers: int = 1) -> None:
        self.limits = Limits() if limits is None else limits
        self.models: dict[str, Served] = {}
        for served in models:
            if served.name in self.models:
                raise UserError(f"two models are called {served.name}: give one of them another name")
            if workers > 1 and served.loaded.model.device.type != "cpu":
                raise UserError(f"worker processes are for models on the CPU, {served.name} is not: leave workers at 1")
            self.models[served.name] = served
        lanes: dict[int, Lane] = {}
        for served in self.models.values():
            if id(served.loaded) not in lanes:
                lanes[id(served.loaded)] = Lane(served, self.limits, workers)
        self.lanes = {name: lanes[id(served.loaded)] for name, served in self.models.items()}
        self.stopping = False

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def model(self, name: str) -> Served:
        """The model of this name. UserError names those that there are."""
        if name not in self.models:
            raise UserError(f"there is no model called {name!a:.80}; there are: {', '.join(self.models)}")
        return self.models[name]

    def submit(
        self, name: str, wish: Wish, payloads: Sequence[Any], listen: Listen | None = None, request: str = ""
    ) -> Ticket:
        """Have a model do something with each payload: a ticket for the answers, in order.

        listen: see Ticket. request: its name in logs. UserError: no such model, or it cannot do this. OverloadError: too
        much waits already. StoppingError: the engine is closed.
        """
        served = self.model(name)
        if wish.verb not in (*served.verbs, *served.tools):
            raise UserError(f"the model {name} cannot {wish.verb}; it can {', '.join(served.verbs)}")
        ticket = Ticket(len(payloads), self.limits.seconds, listen, request)
        sizes = served.sizes(wish.verb, payloads)
        pairs = enumerate(zip(payloads, sizes))
        self.lanes[name].put([Unit(ticket, n, payload, size, wish, wish.alone) for n, (payload, size) in pairs])
        return ticket

    def close(self, grace: float | None = None) -> None:
        """Take nothing new, end what was taken on within `grace` seconds (default: the limits'), give up the rest."""
        self.stopping = True
        lanes = self.each_lane()
        for lane in lanes:
            lane.close()
        until = time.monotonic() + (self.limits.grace if grace is None else grace)
        for lane in lanes:
            lane.end(until)

    def each_lane(self) -> list[Lane]:
        """The lanes, once each: a model that has several names has one lane."""
        return list(dict.fromkeys(self.lanes.values()))
