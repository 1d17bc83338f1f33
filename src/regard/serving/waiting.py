"""From the engine's tickets, which threads fill, to what the event loop waits for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from regard.serving.engine import Engine
from regard.serving.queue import Listen, Ticket
from regard.serving.served import Wish

INLINE = 4000
"""Characters that are cut and counted within a millisecond or two: to hand them to a thread would take longer."""
T = TypeVar("T")
Event = tuple[int, str | None, Any]
"""The number of a unit, and further text of its answer or, with None, the answer."""


async def aside(size: int, call: Callable[..., T], *given: Any) -> T:
    """call(*given), in a thread if it works on so many characters that the event loop would stand still meanwhile."""
    return call(*given) if size <= INLINE else await asyncio.to_thread(call, *given)


async def submit(
    engine: Engine,
    name: str,
    wish: Wish,
    payloads: Sequence[Any],
    listen: Listen | None = None,
    request: str = "",
    size: int = INLINE + 1,
) -> Ticket:
    """Engine.submit, which counts tokens: see `aside`. A caller that is cancelled meanwhile leaves no work behind."""
    task = asyncio.ensure_future(aside(size, engine.submit, name, wish, payloads, listen, request))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_forget)
        raise


def _forget(task: asyncio.Future[Ticket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().cancel()


async def answers(ticket: Ticket) -> list[Any]:
    """All answers of a ticket, or its error. If the caller is cancelled (its client left) so is the ticket."""
    future = asyncio.wrap_future(ticket.future)
    try:
        await asyncio.wait({future}, timeout=ticket.left)
        if not future.done():
            ticket.expire()
        return await future
    except asyncio.CancelledError:
        ticket.cancel()
        raise


class Following:
    """What becomes known of a ticket's answers, as it becomes known. Its `listen` goes to `submit`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()

    def listen(self, number: int, text: str | None, value: Any) -> None:
        """Called by a worker's thread."""
        self._call((number, text, value))

    def _call(self, event: Event | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody listens
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)

    async def events(self, ticket: Ticket) -> AsyncIterator[Event]:
        """The events of the ticket until the last answer; then its error, if it failed. Cancelled if nobody reads on."""
        ticket.future.add_done_callback(lambda _: self._call(None))
        try:
            while True:
                try:
                    event = await asyncio.wait_for(self._queue.get(), ticket.left + 0.01)
                except TimeoutError:
                    ticket.expire()
                    break
                if event is None:
                    break
                yield event
            await asyncio.wrap_future(ticket.future)
        finally:
            ticket.cancel()


async def told(events: AsyncIterator[Event], text_of: Callable[[Any], str]) -> AsyncIterator[tuple[int, str, Any]]:
    """The events as (number, further text, answer or None), where the texts of a number, joined, are text_of(answer)."""
    said: dict[int, str] = {}
    async for number, text, value in events:
        if text is not None:
            said[number] = said.get(number, "") + text
            yield number, text, None
            continue
        whole, before = text_of(value), said.pop(number, "")
        yield number, whole[len(before) :] if whole.startswith(before) else "", value
