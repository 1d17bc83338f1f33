"""A worker process: the same model in shared memory, one thread, batches through a pipe."""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence
from typing import Any

import torch

from regard.serving.desks import LOOK, Pipe, Tickets, Worker
from regard.serving.queue import BrokenError
from regard.serving.served import Served, Wish

log = logging.getLogger("regard.serving")


class Remote:
    """Stands in for a `Worker` in a process of its own. A process that dies takes its batch with it and is replaced."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self._start()

    def _start(self) -> None:
        spawn = torch.multiprocessing.get_context("spawn")
        self.pipe, far = spawn.Pipe()
        self.process = spawn.Process(target=_main, args=(far, self.served), daemon=True, name=f"regard {self.served.name}")
        self.process.start()
        far.close()

    def do(self, wish: Wish, payloads: Sequence[Any], desk: Tickets) -> None:
        """See Worker.do."""
        told: set[int] = set()
        try:
            self.pipe.send((wish, list(payloads)))
            while True:
                if not self.pipe.poll(LOOK):
                    gone = {place for place in range(len(desk.units)) if desk.gone(place)} - told
                    if gone:
                        self.pipe.send(("gone", sorted(gone)))
                        told |= gone
                    continue
                what, place, value = self.pipe.recv()
                if what == "end":
                    return
                if what == "more":
                    self.pipe.send(("more", desk.more(place, value)))
                else:
                    getattr(desk, what)(place, value)
        except (EOFError, OSError):
            self.process.join(5)
            log.error(
                "%s: a worker process died (exit code %s), another takes its place", self.served.name, self.process.exitcode
            )
            for place in range(len(desk.units)):
                desk.fail(place, BrokenError("the process that worked on this died: try again"))
            self.close()
            self._start()

    def close(self) -> None:
        """End the process; it has nothing to do."""
        self.pipe.close()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join(5)


def _main(pipe: Any, served: Served) -> None:
    """The process: batches until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group; the server says when to stop
    torch.set_num_threads(1)
    worker = Worker(served)
    while True:
        try:
            heard = pipe.recv()
        except (EOFError, OSError):
            return
        if isinstance(heard[0], str):  # news about a batch that has ended
            continue
        wish, payloads = heard
        worker.do(wish, payloads, Pipe(pipe))
        pipe.send(("end", 0, None))
