"""Prompts of many people write what each would alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from regard.serving.generating import Prompt, chats, write

PROMPTS = ["A dog", "Two men play", "The", "A red house near the sea ."]


class Desk:
    """Remembers; hands out the rest of the prompts while the first are being written."""

    def __init__(self, rest: list[Prompt] | None = None, leave: tuple[int, ...] = ()) -> None:
        self.rest, self.leave = rest or [], leave
        self.pieces: dict[int, str] = {}
        self.answers: dict[int, Any] = {}

    def piece(self, place: int, text: str) -> None:
        self.pieces[place] = self.pieces.get(place, "") + text

    def answer(self, place: int, value: Any) -> None:
        assert place not in self.answers
        self.answers[place] = value

    def gone(self, place: int) -> bool:
        return place in self.leave

    def more(self, used: int, least: int) -> list[Prompt]:
        return [self.rest.pop(0)] if self.rest else []


def prompts(**more: Any) -> list[Prompt]:
    return [Prompt(text, 8 + n, follow=True, **more) for n, text in enumerate(PROMPTS)]


@pytest.mark.parametrize("options", [{}, {"sample": True, "seed": 3}, {"num_beams": 2}])
def test_answers_equal_the_generators_own(generator: Any, options: dict[str, Any]) -> None:
    desk = Desk([] if "num_beams" in options else prompts()[1:])
    write(generator, options, prompts() if "num_beams" in options else prompts()[:1], desk)
    assert desk.rest == []
    for place, prompt in enumerate(prompts()):
        [alone] = generator.generate([prompt.text], max_new_tokens=prompt.most, details=True, **options)
        found = desk.answers[place]
        assert (found.text, found.finish, found.prompt) == (alone.text, alone.finish, prompt.text)
        assert found.token_log_probs == pytest.approx(alone.token_log_probs, abs=1e-4)
        if "num_beams" not in options:
            assert found.text.startswith(desk.pieces.get(place, ""))


def test_stop_strings_and_samples_by_number(generator: Any) -> None:
    first = prompts()[0]
    [whole] = generator.generate([first.text], max_new_tokens=8)
    stop = whole[1:3]
    desk = Desk()
    write(generator, {}, [replace(first, stop=(stop,)), first], desk)
    assert desk.answers[0].text == whole[: whole.index(stop)]
    assert (desk.answers[0].finish, desk.answers[1].text) == ("stop", whole)
    desk = Desk()
    write(generator, {"sample": True, "num_return": 3}, [replace(first, number=n) for n in (7, 7, 8)], desk)
    texts = [[one.text for one in (best, *best.alternatives)] for best in desk.answers.values()]
    assert texts[0] == texts[1] != texts[2]
    assert len(texts[0]) == 3


def test_who_leaves_gets_nothing_and_holds_nobody_up(generator: Any) -> None:
    desk = Desk(leave=(1,))
    write(generator, {}, prompts(), desk)
    assert set(desk.answers) == {0, 2, 3}


def test_chats(generator: Any, tokenizers: Any) -> None:
    assert chats(generator)
    desk = Desk()
    write(generator, {}, [Prompt((("user", "A dog"),), 5)], desk)
    [alone] = generator.generate([[{"role": "user", "content": "A dog"}]], max_new_tokens=5)
    assert desk.answers[0].text == alone
