"""Batches that fail in part, and batches that nobody waits for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

from regard.errors import UserError
from regard.serving.desks import Pipe, Tickets, Worker
from regard.serving.queue import BrokenError, Ticket, Unit
from regard.serving.served import Wish

WISH = Wish("echo")


class Fragile:
    """Answers texts one by one; "bad" cannot be answered, "wrong" is the asker's mistake. A step of a model before each."""

    def __init__(self) -> None:
        self.name, self.batches = "fragile", []
        decoder = nn.Identity()
        self.loaded = SimpleNamespace(model=SimpleNamespace(encoder=None, decoder=decoder))

    def run(self, wish: Wish, payloads: list[str], desk: Any) -> None:
        self.batches.append(list(payloads))
        for place, text in enumerate(payloads):
            self.loaded.model.decoder(text)
            desk.piece(place, text[:1])
            if text == "bad":
                raise ZeroDivisionError("secret")
            if text == "wrong":
                raise UserError("it is wrong")
            desk.answer(place, text.upper())


def asked(*texts: str) -> tuple[list[Ticket], list[Unit], list[tuple[int, str]]]:
    heard: list[tuple[int, str]] = []
    tickets = [Ticket(1, 60.0, lambda n, text, value, at=at: heard.append((at, text))) for at in range(len(texts))]
    return tickets, [Unit(ticket, 0, text, 1, WISH) for ticket, text in zip(tickets, texts)], heard


def do(worker: Worker, units: list[Unit]) -> None:
    worker.do(WISH, [unit.payload for unit in units], Tickets(units, lambda used, least: []))


def test_one_that_cannot_be_answered_takes_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    served, (tickets, units, heard) = Fragile(), asked("one", "bad", "two", "wrong", "three")
    do(Worker(served), units)
    for place, text in ((0, "ONE"), (2, "TWO"), (4, "THREE")):
        assert tickets[place].result() == [text]
    with pytest.raises(BrokenError, match=r"could not answer \(ZeroDivisionError\)") as caught:
        tickets[1].result()
    assert "secret" not in str(caught.value)
    with pytest.raises(UserError, match="it is wrong"):
        tickets[3].result()
    assert "ZeroDivisionError: secret" in caplog.text
    assert served.batches[1:] == [["bad"], ["two"], ["wrong"], ["three"]]
    assert [text for at, text in heard if at == 2] == [None]  # pieces are told in the first try alone


def test_work_stops_when_all_who_asked_are_gone() -> None:
    served, (tickets, units, _) = Fragile(), asked("one", "two", "three")
    for ticket in tickets:
        ticket.cancel()
    do(Worker(served), units)
    assert served.batches == [["one", "two", "three"]]
    served, (tickets, units, _) = Fragile(), asked("one", "two", "three")
    tickets[0].cancel()
    do(Worker(served), units)
    assert tickets[2].result() == ["THREE"]


def test_work_of_others_on_the_same_model_is_not_stopped() -> None:
    import threading

    served, (tickets, units, _) = Fragile(), asked("one")
    worker, other = Worker(served), []

    def run(wish: Wish, payloads: list[str], desk: Any) -> None:
        tickets[0].cancel()
        thread = threading.Thread(target=lambda: other.append(served.loaded.model.decoder("theirs")))
        thread.start()
        thread.join()

    served.run = run  # type: ignore[method-assign]
    do(worker, units)
    assert other == ["theirs"]
    worker.close()
    assert not served.loaded.model.decoder._forward_pre_hooks


def test_the_pipe_hears_who_left_and_what_there_is_more() -> None:
    import multiprocessing

    near, far = multiprocessing.Pipe()
    desk = Pipe(far)
    assert not desk.gone(1)
    near.send(("gone", [1, 3]))
    near.send(("more", ["x"]))
    assert desk.more(5, 2) == ["x"]
    assert desk.gone(1)
    assert not desk.gone(2)
    desk.piece(0, "a")
    desk.answer(0, "A")
    desk.fail(2, UserError("no"))
    assert near.recv() == ("more", 5, 2)
    assert near.recv() == ("piece", 0, "a")
    assert near.recv() == ("answer", 0, "A")
    what, place, error = near.recv()
    assert (what, place, str(error)) == ("fail", 2, "no")
    near.close()
    far.close()
