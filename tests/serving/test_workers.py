"""Worker processes answer as the thread does, and one that dies is replaced."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest

from regard.serving.engine import Engine
from regard.serving.limits import Limits
from regard.serving.queue import BrokenError
from regard.serving.served import Served, Source, Wish
from regard.serving.workers import Remote

TEXTS = ["A dog plays near the red sea .", "Two men .", "The girl runs in the house .", "A red dog ."]


def test_processes(slow: Any) -> None:
    """Answers, pieces, links and cancellation in one test, since each process takes seconds to start."""
    limits = Limits(grace=5.0, seconds=120.0)
    with Engine([Served("slow", slow)], limits, workers=2) as engine:
        served = engine.model("slow")
        wish = served.wish("translate", limits, max_length=9)
        wanted = slow.translate(TEXTS, max_length=9)
        heard: list[tuple[int, str]] = []
        follow = [Source(text, follow=True, align=True) for text in TEXTS]
        ticket = engine.submit("slow", wish, follow, lambda n, text, value: heard.append((n, text or "")))
        found = ticket.result()
        assert [one.translation.text for one in found] == wanted
        assert all(one.linked and one.linked[0] for one in found if one.translation.text.strip())
        for number, text in enumerate(wanted):
            assert text.startswith("".join(piece for n, piece in heard if n == number))

        long = Wish("translate", (("max_length", 4000), ("num_beams", 1)))
        tickets = [engine.submit("slow", long, [Source(text)]) for text in TEXTS[:2]]
        while not engine.lanes["slow"].desks:
            time.sleep(0.01)
        for ticket in tickets:
            ticket.cancel()
        again = engine.submit("slow", wish, [Source(TEXTS[0])])
        assert again.result()[0].translation.text == wanted[0]


def test_a_dead_process_is_replaced(translator: Any, caplog: pytest.LogCaptureFixture) -> None:
    from regard.serving.desks import Tickets
    from regard.serving.queue import Ticket, Unit

    remote = Remote(Served("en-fr", translator))
    wish = remote.served.wish("translate", Limits())

    def ask() -> Ticket:
        ticket = Ticket(1, 120.0)
        unit = Unit(ticket, 0, Source(TEXTS[0]), 5, wish)
        remote.do(wish, [unit.payload], Tickets([unit], lambda used, least: []))
        return ticket

    first = remote.process
    os.kill(first.pid or 0, signal.SIGKILL)
    with pytest.raises(BrokenError, match="died: try again"):
        ask().result()
    assert "a worker process died (exit code -9)" in caplog.text
    assert remote.process is not first
    assert ask().result()[0].translation.text == translator.translate(TEXTS[:1])[0]
    remote.close()
    assert not remote.process.is_alive()
