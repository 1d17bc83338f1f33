"""Texts are cut into sentences, and put together again to the last space."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.sentences import join, split, whole

TRICKY = 'Mr. Smith came.  He said: "Hi!"\n\n\t你好。你在哪里？\u3000OK…\r\n Dr.\u00a0No.\u2028Yes. '


def cores(text: str, *more: object) -> list[str]:
    return [each.core for each in split(text, *more)]  # type: ignore[arg-type]


def test_sentences_of_several_languages() -> None:
    assert cores("Mr. Smith came. He left.", "en") == ["Mr. Smith came.", "He left."]
    assert cores("你好。你在哪里？", "zh") == ["你好。", "你在哪里？"]
    assert cores("Bonjour M. Dupont. Ça va ?", "fr")[-1] == "Ça va ?"
    assert cores("one\ntwo three") == ["one", "", "two three"]
    assert cores("one\ntwo three", "en", False) == ["one\ntwo three"]
    assert cores("  ") == [""]
    assert cores("") == []
    assert [each.core for each in whole(" One. Two. ")] == ["One. Two."]


@given(st.text(alphabet=st.sampled_from(list(TRICKY + "abcXYZ.!?¡«»'()0123456789🙂éż")), max_size=80))
@settings(max_examples=200, deadline=None)
def test_nothing_is_lost_whatever_the_text_is(text: str) -> None:
    for language in ("en", "fr", "zh", "xx"):
        for lines in (True, False):
            parts = split(text, language, lines, lambda part: len(part) < 12)
            assert "".join(each.before + each.core + each.after for each in parts) == text
            for each in parts:
                assert text[each.start : each.start + len(each.core)] == each.core
                assert each.core == each.core.strip()
    assert join(whole(text), [text.strip()]) == text


def test_white_space_stays_around_translations() -> None:
    parts = split("  A dog.\t\tTwo men.\n\n\u3000A house.  ", "en")
    assert join(parts, [each.core.upper() for each in parts]) == "  A DOG.\t\tTWO MEN.\n\n\u3000A HOUSE.  "


def test_what_the_model_cannot_read_at_once_is_cut_between_words() -> None:
    parts = split("one two three four five six seven eight", "en", True, lambda part: len(part) <= 15)
    assert all(len(each.core) <= 15 for each in parts)
    assert " ".join(each.core for each in parts) == "one two three four five six seven eight"
    assert [len(each.core) for each in split("x" * 20, "en", True, lambda part: len(part) <= 5)] == [5, 5, 5, 5]
    assert len(split("x" * 9, "en", True, lambda part: False)) == 9


@pytest.mark.parametrize("text", ["a" + " " * 50_000 + "b", "." * 50_000, "Mr. " * 10_000, "(a. " * 10_000, '"' * 20_000])
def test_long_texts_of_little_sense_are_no_trap(text: str) -> None:
    """All of it takes time in proportion to the length: a square of it would not come back."""
    assert "".join(each.before + each.core + each.after for each in split(text, "en")) == text
