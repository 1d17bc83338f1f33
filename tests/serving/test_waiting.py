"""Tickets in an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from regard.errors import UserError
from regard.serving.queue import Ticket, TimeLimitError
from regard.serving.served import Wish
from regard.serving.waiting import Following, answers, submit, told


def test_answers_come_from_another_thread() -> None:
    async def run() -> list[Any]:
        ticket = Ticket(2, 60.0)
        threading.Thread(target=lambda: [ticket.answer(n, n) for n in (1, 0)]).start()
        return await answers(ticket)

    assert asyncio.run(run()) == [0, 1]


def test_errors_and_time_limits_come_too() -> None:
    async def run(ticket: Ticket) -> Any:
        return await answers(ticket)

    failed = Ticket(1, 60.0)
    failed.fail(UserError("no"))
    with pytest.raises(UserError, match="no"):
        asyncio.run(run(failed))
    with pytest.raises(TimeLimitError):
        asyncio.run(run(Ticket(1, 0.01)))


def test_a_caller_that_is_cancelled_cancels_its_ticket() -> None:
    async def run(ticket: Ticket) -> None:
        task = asyncio.create_task(answers(ticket))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    ticket = Ticket(1, 60.0)
    asyncio.run(run(ticket))
    assert ticket.future.cancelled()


def test_a_caller_that_is_cancelled_while_it_submits_leaves_no_work_behind() -> None:
    ticket, go, entered = Ticket(1, 60.0), threading.Event(), threading.Event()

    class Engine:
        def submit(self, *given: Any) -> Ticket:
            entered.set()
            go.wait(10)
            return ticket

    async def run() -> None:
        task = asyncio.create_task(submit(Engine(), "x", Wish("translate"), []))  # type: ignore[arg-type]
        while not entered.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        while not ticket.future.cancelled():
            await asyncio.sleep(0.001)

    asyncio.run(run())


def test_following_gives_pieces_then_answers_then_the_error() -> None:
    async def run(fails: bool) -> list[Any]:
        following = Following()
        ticket = Ticket(2, 60.0, following.listen)

        def work() -> None:
            ticket.piece(1, "a")
            ticket.piece(1, "b")
            ticket.answer(1, "abc")
            ticket.answer(0, "x") if not fails else ticket.fail(UserError("no"))

        threading.Thread(target=work).start()
        heard = []
        try:
            async for event in told(following.events(ticket), str):
                heard.append(event)
        except UserError as error:
            heard.append(str(error))
        return heard

    said = [(1, "a", None), (1, "b", None), (1, "c", "abc")]
    assert asyncio.run(run(False)) == [*said, (0, "x", "x")]
    assert asyncio.run(run(True)) == [*said, "no"]


def test_who_stops_following_cancels() -> None:
    async def run() -> Ticket:
        following = Following()
        ticket = Ticket(1, 60.0, following.listen)
        ticket.piece(0, "a")
        events = following.events(ticket)
        assert await anext(events) == (0, "a", None)
        await events.aclose()  # type: ignore[attr-defined]
        return ticket

    assert asyncio.run(run()).future.cancelled()


def test_following_ends_at_the_time_limit() -> None:
    async def run() -> None:
        following = Following()
        ticket = Ticket(1, 0.02, following.listen)
        async for _ in following.events(ticket):
            pass

    with pytest.raises(TimeLimitError):
        asyncio.run(run())
