"""Bodies of all sorts: what is wrong is named, by field or by place."""

from __future__ import annotations

from typing import Any

import pytest

from regard.serving.bodies import FORM, Body, form, parsed, takes, validated
from regard.serving.native import TranslateBody
from regard.serving.refusals import RefusalError


class Example(Body):
    text: str | list[str]
    names: list[str] | None = None
    tags: list[str] = []  # noqa: RUF012
    count: int = 1


def refused(call: Any, *given: Any) -> RefusalError:
    with pytest.raises(RefusalError) as caught:
        call(*given)
    assert 400 <= caught.value.status < 500
    return caught.value


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not JSON: Expecting value, line 1, column 1"),
        (b'{"text": "a"', "line 1, column 13"),
        (b'{"text":\n nope}', "line 2, column 2"),
        (b'{"text": "\xe9"}', "not valid UTF-8: byte E9 at place 11"),
        (b'{"count": NaN}', "NaN is no number"),
        (b'{"text": "\\ud83d \\uDE42"}', "half a surrogate pair"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"count": ' + b"9" * 5000 + b"}", "not acceptable JSON"),
    ],
)
def test_what_is_no_json_s_serve_08(raw: bytes, says: str) -> None:
    error = refused(parsed, raw)
    assert says in error.message
    assert len(error.message) < 200


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"text": None}, "text"),
        ({"text": 5}, "text"),
        ({"text": ["a", 5]}, "text.1"),
        ({"text": {"a": 1}}, "text"),
        ({}, "text"),
        ({"text": "a", "count": "1"}, "count"),
        ({"text": "a", "count": True}, "count"),
        ({"text": "a", "count": 1.5}, "count"),
    ],
)
def test_wrong_fields_are_named_s_serve_08(value: Any, field: str) -> None:
    error = refused(validated, Example, value, True)
    assert error.field == field.split(".")[0] or error.field == field
    assert error.message.startswith(f"{error.field}: ")


@pytest.mark.parametrize(
    ("value", "kind"), [([], "a list"), ("a", "a string"), (None, "null"), (True, "true"), (5, "a number")]
)
def test_a_body_is_an_object(value: Any, kind: str) -> None:
    assert f"not {kind}" in refused(validated, Example, value, True).message


def test_unknown_fields_are_passed_over_but_not_in_our_own_dialect() -> None:
    assert validated(Example, {"text": "a", "else": 1}, True).text == "a"
    error = refused(validated, TranslateBody, {"text": "a", "num_beems\u00e9": 1}, True)
    assert error.field == "num_beems\\xe9"


def test_whole_surrogate_pairs_are_a_character() -> None:
    assert parsed(b'{"text": "\\ud83d\\ude42"}') == {"text": "🙂"}


def test_forms() -> None:
    assert form(b"text=a+b&text=%C3%A9&tags=x&count=3", Example) == {"text": ["a b", "é"], "tags": ["x"], "count": "3"}
    assert validated(Example, form(b"text=a&count=3", Example), False).count == 3
    assert "place 1" in refused(form, b"text=%E9", Example).message
    refused(form, b"text=\xe9", Example)
    refused(form, b"a=1&" * 20_000, Example)


def test_the_document_knows_both_kinds() -> None:
    content = takes(Example, forms=True)["requestBody"]["content"]
    assert set(content) == {"application/json", FORM}
    assert set(takes(Example)["requestBody"]["content"]) == {"application/json"}
