"""Checks, verdicts, results."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from regard.labs.frame.values import SCHEMA, Check, Line, Result, check, line, schema, text, verdict_of

T = text("a", "甲")


def made(role, passed, *quotes):
    return check(role, f"{role}-{passed}", T, 1.0 if passed else 0.0, ">=", 0.5, T, *quotes)


def test_the_verdict_follows_from_the_checks():
    claim, control = made("claim", True), made("control", True)
    assert verdict_of([claim, control]) == "holds"
    assert verdict_of([claim, control, made("limit", True)]) == "holds_with_limits"
    assert verdict_of([claim, control, made("limit", False), made("note", False)]) == "holds"
    assert verdict_of([claim, made("claim", False), control]) == "not_as_written"
    assert verdict_of([made("claim", False), made("control", False)]) == "inconclusive"
    assert verdict_of([claim]) == verdict_of([control]) == verdict_of([]) == "inconclusive"


def test_each_quote_is_judged_by_its_own_claims():
    checks = [made("claim", True, 1), made("claim", False, 2, 3), made("control", True)]
    assert [verdict_of(checks, n) for n in (1, 2, 3, 4)] == ["holds", "not_as_written", "not_as_written", "inconclusive"]


def test_a_check_cannot_say_what_its_numbers_do_not():
    good = made("claim", True)
    with pytest.raises(ValidationError, match="the numbers say otherwise"):
        Check.model_validate(good.model_dump() | {"passed": False})
    with pytest.raises(ValidationError):
        check("claim", "nan", T, float("nan"), "<=", 1.0, T)


def test_a_result_goes_through_json_and_cannot_lie(measured):
    result = measured("anatomy")
    document = result.json_value()
    assert document["schema"] == SCHEMA == "regard.lab/1"
    assert Result.model_validate(document) == result
    with pytest.raises(ValidationError, match="not what the checks say"):
        Result.model_validate(document | {"verdict": "holds"})
    with pytest.raises(ValidationError, match="extra"):
        Result.model_validate(document | {"more": 1})


def test_the_schema_names_what_a_result_has(measured):
    found = schema()
    document = measured("anatomy").json_value()
    assert set(document) == set(found["properties"])
    assert set(found["required"]) <= set(document)


def test_a_line_is_made_of_any_numbers():
    assert line(text("a", "甲"), range(3), (1, 2.5, 4)) == Line(label=text("a", "甲"), x=[0.0, 1.0, 2.0], y=[1.0, 2.5, 4.0])
