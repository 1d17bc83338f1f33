"""Each lab at its smallest size, both ways, once a session."""

from __future__ import annotations

from functools import cache

import pytest

from regard import labs
from regard.labs.frame.lab import Setting, run


@cache
def _measured(name, broken):
    return run(labs.find(name), Setting(broken, "fast"))


@pytest.fixture
def measured():
    """measured(name, broken=False): the lab's result."""
    return lambda name, broken=False: _measured(name, broken)


@pytest.fixture
def judged(measured):
    """judged(name, flipped, *failing): the plain run gives the documented verdict, controls pass and every quote is judged;
    under sabotage the verdict is `flipped`, and just these claims fail. Gives both results."""

    def judge(name, flipped, *failing):
        plain, broken = measured(name), measured(name, True)
        assert plain.verdict == plain.expected == labs.find(name).expected
        assert plain.as_documented
        assert all(one.passed for one in plain.checks if one.role == "control")
        assert "inconclusive" not in plain.quote_verdicts, "a quote without a claim"
        assert broken.verdict == flipped != plain.verdict
        assert broken.as_documented
        assert broken.sabotage is not None
        assert plain.sabotage is None
        assert {one.id for one in broken.checks if one.role == "claim" and not one.passed} == set(failing)
        assert all(one.passed for one in broken.checks if one.role == "control")
        return plain, broken

    return judge


@pytest.fixture
def value():
    """value(result, id): what a check measured."""
    return lambda result, name: next(one.value for one in result.checks if one.id == name)


@pytest.fixture
def ladder_rows():
    """Rows of the lab ladder as they might be, made up for tests."""
    arms = {"fixed": 40.0, "additive": 52.0, "dot": 54.0, "transformer": 58.0}
    facts = {"weights": 10, "steps": 10, "minutes": 20.0, "translating": 9.0, "chrf": 70.0}
    return [
        facts
        | {"arm": arm, "bleu": bleu, "speed": 1000.0 + bleu}
        | {f"bleu{n}": bleu - n * (4 if arm == "fixed" else 1) for n in range(4)}
        | {"low_fixed": bleu - 41.0, "high_fixed": bleu - 39.0, "low_dot": bleu - 55.0, "high_dot": bleu - 53.0}
        for arm, bleu in arms.items()
    ]
