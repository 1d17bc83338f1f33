"""Many requests at once: every answer is the one that the model gives alone."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from regard.errors import UserError
from regard.serving.engine import Engine
from regard.serving.generating import Prompt
from regard.serving.limits import Limits
from regard.serving.queue import OverloadError, StoppingError, TimeLimitError
from regard.serving.served import Served, Source, Wish

TEXTS = ["A dog plays near the red sea .", "Two men .", "The girl runs in the house .", "A red dog ."]


def lines(count: int, seed: int, most: int = 12) -> list[str]:
    draw, known = (
        random.Random(seed),
        ["a", "dog", "men", "run", "the", "red", "sea", "house", "park", "girl", "near", "look", "."],
    )
    return [" ".join(draw.choice(known) for _ in range(draw.randint(1, most))) for _ in range(count)]


@pytest.fixture
def slow(slow: Any) -> Any:
    """It counts its steps."""
    slow.steps = []
    slow.model.decoder.register_forward_pre_hook(lambda module, given: slow.steps.append(time.monotonic()))
    return slow


@pytest.fixture
def engine_of() -> Iterator[Callable[..., Engine]]:
    made = []

    def make(served: list[Served], **limits: Any) -> Engine:
        made.append(Engine(served, Limits(**{"grace": 5.0, **limits})))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def long_wish(steps: int = 4000) -> Wish:
    return Wish("translate", (("max_length", steps), ("num_beams", 1)))


def started(slow: Any, steps: int = 1) -> None:
    while len(slow.steps) < steps:
        time.sleep(0.001)


def test_answers_do_not_depend_on_who_else_asks_s_serve_02(engine: Engine, translator: Any) -> None:
    """20 people ask at once for 60 lines of 1 to 40 words: text and score of each as alone."""
    wish = engine.model("en-fr").wish("translate", engine.limits)
    asked = lines(60, 1, 40)
    tickets: dict[int, Any] = {}

    def ask(person: int) -> None:
        tickets[person] = engine.submit("en-fr", wish, [Source(text) for text in asked[person::20]])

    threads = [threading.Thread(target=ask, args=(person,)) for person in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for person in range(20):
        for text, found in zip(asked[person::20], tickets[person].result()):
            [alone] = translator.translate([text], details=True)
            assert (found.translation.source, found.translation.text) == (text, alone.text)
            assert found.translation.score == pytest.approx(alone.score, abs=1e-4)
    lane = engine.lanes["en-fr"]
    assert lane.statistics.units == 60
    assert lane.statistics.batches < 60
    assert lane.statistics.tokens == sum(len(translator.tokenizer.encode(text)) + 1 for text in asked)


def test_a_very_large_request_s_serve_03(engine: Engine, translator: Any) -> None:
    """1500 short lines in one request, against one by one (of 50 that are different); in their order (S-DATA-11)."""
    known = lines(50, 2, 4)
    asked = [known[n * 7 % 50] for n in range(1500)]
    alone = {text: translator.translate([text])[0] for text in known}
    wish = engine.model("en-fr").wish("translate", engine.limits)
    found = engine.submit("en-fr", wish, [Source(text) for text in asked]).result()
    assert [one.translation.text for one in found] == [alone[text] for text in asked]


def test_no_state_is_left_behind_s_serve_09(engine: Engine, translator: Any) -> None:
    wish = engine.model("en-fr").wish("translate", engine.limits)

    def ask(text: str) -> str:
        return engine.submit("en-fr", wish, [Source(text)]).result()[0].translation.text

    long, short = " ".join(lines(3, 3, 12)), "A dog ."
    assert [ask(TEXTS[0]) for _ in range(3)] == translator.translate(TEXTS[:1]) * 3
    assert [ask(long), ask(short), ask(TEXTS[0])] == translator.translate([long, short, TEXTS[0]])


def test_samples_depend_on_the_seed_and_the_place_in_the_request_alone(engine: Engine, translator: Any) -> None:
    wish = engine.model("en-fr").wish("translate", engine.limits, sample=True, seed=4)
    asked = [TEXTS[0]] * 4
    tickets = [engine.submit("en-fr", wish, [Source(text, number=n) for n, text in enumerate(asked)]) for _ in range(3)]
    wanted = translator.translate(asked, sample=True, seed=4)
    assert len(set(wanted)) > 1
    for ticket in tickets:
        assert [one.translation.text for one in ticket.result()] == wanted


def test_prompts_join_those_that_run(engine: Engine, generator: Any) -> None:
    wish = engine.model("tales").wish("generate", engine.limits)
    asked = lines(12, 5, 6)
    tickets = []
    for number, text in enumerate(asked):
        tickets.append(engine.submit("tales", wish, [Prompt(text, 10 + number)]))
        time.sleep(0.002)
    for number, (text, ticket) in enumerate(zip(asked, tickets)):
        assert ticket.result()[0].text == generator.generate([text], max_new_tokens=10 + number)[0]
    assert engine.lanes["tales"].statistics.batches < 12


def test_those_who_ask_at_about_the_same_time_share_a_batch(engine_of: Callable[..., Engine], translator: Any) -> None:
    engine = engine_of([Served("en-fr", translator)], window=1.0)
    tickets = [engine.submit("en-fr", Wish("translate"), [Source(text)]) for text in TEXTS]
    assert [ticket.result()[0].translation.text for ticket in tickets] == translator.translate(TEXTS)
    assert engine.lanes["en-fr"].statistics.batches == 1


def test_vectors_and_labels(engine: Engine, embedder: Any, classifier: Any) -> None:
    found = engine.submit("vectors", Wish("embed"), TEXTS).result()
    for row, text in zip(found, TEXTS):
        assert row == pytest.approx(embedder.embed([text])[0].tolist(), abs=1e-5)
    labels = engine.submit("marks", Wish("classify"), [TEXTS[0], (TEXTS[1], TEXTS[2])]).result()
    assert [one.label for one in labels] == classifier.classify([TEXTS[0], (TEXTS[1], TEXTS[2])])


def test_a_model_with_two_names_has_one_lane(engine_of: Callable[..., Engine], translator: Any) -> None:
    engine = engine_of([Served("one", translator), Served("two", translator)])
    assert engine.lanes["one"] is engine.lanes["two"]
    tickets = [engine.submit(name, Wish("translate"), [Source(TEXTS[0])]) for name in ("one", "two")]
    assert [ticket.result()[0].translation.text for ticket in tickets] == translator.translate(TEXTS[:1]) * 2


def test_a_closed_engine_leaves_its_models_as_they_were(engine_of: Callable[..., Engine], slow: Any) -> None:
    before = len(slow.model.decoder._forward_pre_hooks)
    engine = engine_of([Served("slow", slow)])
    assert len(slow.model.decoder._forward_pre_hooks) == before + 1
    engine.close()
    assert len(slow.model.decoder._forward_pre_hooks) == before


def test_what_cannot_be_asked(engine: Engine, models: list[Served]) -> None:
    with pytest.raises(UserError, match="no model called 'de-en'; there are: en-fr, tales, vectors, marks"):
        engine.submit("de-en", Wish("translate"), [])
    with pytest.raises(UserError, match="the model tales cannot translate; it can generate"):
        engine.submit("tales", Wish("translate"), [])
    with pytest.raises(UserError, match="two models are called en-fr"):
        Engine([models[0], models[0]])


def test_who_leaves_stops_the_work(engine_of: Callable[..., Engine], slow: Any) -> None:
    engine = engine_of([Served("slow", slow)])
    ticket = engine.submit("slow", long_wish(), [Source(TEXTS[0])])
    started(slow)
    ticket.cancel()
    assert engine.submit("slow", long_wish(3), [Source(TEXTS[0])]).result()[0].translation.tokens
    assert len(slow.steps) < 4000
    assert engine.lanes["slow"].statistics.cancelled == 1


def test_who_leaves_before_his_turn_costs_nothing(engine_of: Callable[..., Engine], slow: Any) -> None:
    engine = engine_of([Served("slow", slow)])
    first = engine.submit("slow", long_wish(300), [Source(TEXTS[0])])
    started(slow)
    second = engine.submit("slow", long_wish(300), [Source(TEXTS[1])])
    second.cancel()
    first.result()
    engine.submit("slow", long_wish(2), [Source(TEXTS[1])]).result()
    assert len(slow.steps) == 302


def test_time_limit(engine_of: Callable[..., Engine], slow: Any) -> None:
    engine = engine_of([Served("slow", slow)], seconds=0.2)
    with pytest.raises(TimeLimitError, match=r"within 0\.2 seconds"):
        engine.submit("slow", long_wish(), [Source(TEXTS[0])]).result()
    engine.close()
    assert len(slow.steps) < 4000


def test_overload_says_when_to_come_again(engine_of: Callable[..., Engine], slow: Any) -> None:
    engine = engine_of([Served("slow", slow)], waiting=3)
    running = engine.submit("slow", long_wish(), [Source(TEXTS[0])])
    started(slow)
    waiting = engine.submit("slow", long_wish(2), [Source(text) for text in TEXTS[:3]])
    with pytest.raises(OverloadError, match="3 sentences are waiting") as caught:
        engine.submit("slow", long_wish(2), [Source(TEXTS[3])])
    assert 1 <= caught.value.seconds <= 60
    assert engine.lanes["slow"].statistics.refused == 1
    running.cancel()
    assert len(waiting.result()) == 3


def test_what_was_taken_on_is_done_before_the_end(engine_of: Callable[..., Engine], slow: Any) -> None:
    engine = engine_of([Served("slow", slow)], batch_tokens=8, grace=60.0)
    ticket = engine.submit("slow", long_wish(20), [Source(text) for text in TEXTS])
    engine.close()
    assert len(ticket.result()) == len(TEXTS)
    with pytest.raises(StoppingError):
        engine.submit("slow", long_wish(2), [Source(TEXTS[0])])
    assert not any(thread.is_alive() for thread in engine.lanes["slow"].threads)


def test_what_takes_too_long_at_the_end_is_given_up(engine_of: Callable[..., Engine], slow: Any) -> None:
    engine = engine_of([Served("slow", slow)])
    ticket, other = (engine.submit("slow", long_wish(), [Source(text)]) for text in TEXTS[:2])
    started(slow)
    engine.close(grace=0)
    for each in (ticket, other):
        with pytest.raises(StoppingError):
            each.result()
    assert len(slow.steps) < 4000
    assert not any(thread.is_alive() for thread in engine.lanes["slow"].threads)


def test_processes_are_for_the_cpu() -> None:
    from types import SimpleNamespace

    import torch

    model = SimpleNamespace(device=torch.device("cuda"))
    there = SimpleNamespace(name="x", loaded=SimpleNamespace(model=model))
    with pytest.raises(UserError, match="leave workers at 1"):
        Engine([there], workers=2)  # type: ignore[list-item]
