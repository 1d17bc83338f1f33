"""Tickets and the fair queue."""

from __future__ import annotations

import threading
import time

import pytest

from regard.serving.queue import OverloadError, Ticket, TimeLimitError, Unit, Waiting


def units(count: int, size: int = 1, wish: object = "w", ticket: Ticket | None = None, alone: bool = False) -> list[Unit]:
    ticket = Ticket(count, 60.0) if ticket is None else ticket
    return [Unit(ticket, number, None, size, wish, alone) for number in range(count)]


def test_a_ticket_gives_answers_in_order_whoever_brings_them() -> None:
    heard: list[object] = []
    ticket = Ticket(3, 60.0, lambda *event: heard.append(event))
    ticket.piece(2, "c")
    for number in (2, 0, 1):
        ticket.answer(number, number * 10)
    assert ticket.result() == [0, 10, 20]
    assert heard == [(2, "c", None), (2, None, 20), (0, None, 0), (1, None, 10)]
    ticket.piece(0, "late")
    ticket.fail(RuntimeError())
    assert len(heard) == 4
    assert Ticket(0, 60.0).result() == []


def test_answers_from_many_threads_are_all_counted() -> None:
    ticket = Ticket(800, 60.0)
    threads = [threading.Thread(target=lambda at=at: [ticket.answer(n, n) for n in range(at, 800, 8)]) for at in range(8)]
    for thread in threads:
        thread.start()
    assert ticket.result() == list(range(800))


def test_a_ticket_fails_at_its_limit_and_when_cancelled() -> None:
    late = Ticket(1, 0.01)
    with pytest.raises(TimeLimitError, match=r"within 0\.01 seconds"):
        late.result()
    assert late.gone
    left = Ticket(1, 60.0)
    assert not left.gone
    left.cancel()
    left.answer(0, "nobody")
    assert left.gone


def test_like_goes_with_like_within_the_budget() -> None:
    waiting = Waiting(100)
    sizes = [(5, "a"), (9, "b"), (50, "a"), (6, "a"), (4, "a")]
    for size, wish in sizes:
        waiting.put(units(1, size, wish), lambda: 1)
    assert [unit.size for unit in waiting.take(18)] == [5, 6, 4]
    assert [(unit.size, unit.wish) for unit in waiting.take(18)] == [(9, "b")]
    assert [unit.size for unit in waiting.take(18)] == [50]
    assert waiting.take(18) == []
    assert (len(waiting), waiting.tokens) == (0, 0)


def test_short_ones_count_as_much_as_they_will_take() -> None:
    waiting = Waiting(100)
    waiting.put(units(9, 2), lambda: 1)
    assert len(waiting.take(40, least=10)) == 4


def test_one_who_is_alone_shares_no_batch() -> None:
    waiting = Waiting(100)
    waiting.put(units(2, alone=True), lambda: 1)
    waiting.put(units(2), lambda: 1)
    assert sorted(len(waiting.take(100)) for _ in range(3)) == [1, 1, 2]


def test_a_small_request_does_not_stand_behind_a_large_one() -> None:
    waiting = Waiting(10_000)
    large = Ticket(1000, 60.0)
    waiting.put(units(1000, 4, ticket=large), lambda: 1)
    waiting.take(40)
    small = Ticket(1, 60.0)
    waiting.put(units(1, 4, ticket=small), lambda: 1)
    assert any(unit.ticket is small for unit in waiting.take(40))
    rest = 0
    while batch := waiting.take(40):
        rest += sum(unit.ticket is large for unit in batch)
    assert rest == 1000 - 10 - 9


def test_all_or_none_find_room() -> None:
    waiting = Waiting(5)
    waiting.put(units(9), lambda: 1)  # an empty queue takes any request that is allowed at all
    with pytest.raises(OverloadError, match="9 sentences are waiting") as caught:
        waiting.put(units(1), lambda: 7)
    assert caught.value.seconds == 7
    assert len(waiting) == 9


def test_room_is_made_by_those_who_left() -> None:
    waiting = Waiting(4)
    left, late = Ticket(2, 60.0), Ticket(2, 0.005)
    waiting.put(units(2, ticket=left), lambda: 1)
    waiting.put(units(2, ticket=late), lambda: 1)
    left.cancel()
    time.sleep(0.01)
    waiting.put(units(4), lambda: 1)
    assert (len(waiting), waiting.tokens) == (4, 4)
    with pytest.raises(TimeLimitError):
        late.result()
    waiting.fail(RuntimeError("over"))
    assert len(waiting) == 0
