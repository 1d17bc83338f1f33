"""What a lab finds, as values that go through JSON: texts in both languages, checks, rows, plots, and the verdict.

A verdict is computed from the checks and from nothing else; a result whose verdict says something else cannot be made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

SCHEMA = "regard.lab/1"

Verdict = Literal["holds", "holds_with_limits", "not_as_written", "inconclusive"]
Role = Literal["claim", "control", "limit", "note"]
Operator = Literal["<=", ">=", "=="]


class Value(BaseModel):
    """A frozen value; unknown keys are refused, and so are numbers that JSON does not have."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Text(Value):
    """The same in English and in Chinese."""

    en: str
    zh: str

    def say(self, language: str) -> str:
        """The text in "en" or "zh"."""
        return self.zh if language == "zh" else self.en


def text(en: str, zh: str) -> Text:
    """A text of its English and its Chinese."""
    return Text(en=en, zh=zh)


class Quote(Value):
    """A sentence of a course note, as written there (zh) and translated (en). note: the title of the note; section: where
    it stands there."""

    zh: str
    en: str
    note: str
    section: str

    def say(self, language: str) -> str:
        """The sentence in "en" or "zh"."""
        return self.zh if language == "zh" else self.en


class Check(Value):
    """A measured value beside its threshold.

    role: "claim": the quote needs it; "control": an arm that must behave the other way, without which nothing was shown;
    "limit": passing, it shows a place within the quote's words where the quote stops being true; "note": told, without a
    part in the verdict. origin: where the threshold comes from. quotes: numbers of the quotes it is about, from 1; none for
    all of them.
    """

    id: str
    role: Role
    what: Text
    value: float
    operator: Operator
    threshold: float
    origin: Text
    quotes: tuple[int, ...] = ()
    passed: bool = Field(description="what the value, the operator and the threshold say")

    @model_validator(mode="after")
    def _agrees(self) -> Check:
        if self.passed != _passes(self.value, self.operator, self.threshold):
            raise ValueError(f"check {self.id}: passed is {self.passed}, the numbers say otherwise")
        return self


def _passes(value: float, operator: Operator, threshold: float) -> bool:
    if operator == "==":
        return value == threshold
    return value <= threshold if operator == "<=" else value >= threshold


def check(
    role: Role,
    name: str,
    what: Text,
    value: float,
    operator: Operator,
    threshold: float,
    origin: Text,
    *quotes: int,
) -> Check:
    """A check, passed or not as the numbers say. quotes: numbers of those it is about, none for all."""
    value, threshold = float(value), float(threshold)
    passed = _passes(value, operator, threshold)
    return Check(
        id=name,
        role=role,
        what=what,
        value=value,
        operator=operator,
        threshold=threshold,
        origin=origin,
        quotes=quotes,
        passed=passed,
    )


def verdict_of(checks: Sequence[Check], quote: int | None = None) -> Verdict:
    """What the checks say of all quotes, or of one of them alone.

    No claim or no control measured, or a control that does not behave the other way: "inconclusive". A claim that fails:
    "not_as_written". A limit found: "holds_with_limits". Else "holds".
    """
    about = [one for one in checks if quote is None or not one.quotes or quote in one.quotes]
    passed = {role: [one.passed for one in about if one.role == role] for role in get_args(Role)}
    if not passed["claim"] or not passed["control"] or not all(passed["control"]):
        return "inconclusive"
    if not all(passed["claim"]):
        return "not_as_written"
    return "holds_with_limits" if any(passed["limit"]) else "holds"


class Design(Value):
    """How it is measured. vary: what is changed; fixed: what is not; measured: the quantities; control: the arm that must
    behave the other way."""

    vary: Text
    fixed: Text
    measured: Text
    control: Text


Cell = Text | str | bool | int | float | None


class Column(Value):
    """A column of the table: the key of its cells in each row, and its title."""

    key: str
    title: Text


class Line(Value):
    """Points of one arm; dashed: a line to compare with (what theory says, a threshold)."""

    label: Text
    x: list[float]
    y: list[float]
    dashed: bool = False


def line(label: Text, x: Sequence[float], y: Sequence[float], dashed: bool = False) -> Line:
    """A line through points of any numbers."""
    return Line(label=label, x=[float(value) for value in x], y=[float(value) for value in y], dashed=dashed)


class Plot(Value):
    """Lines over x, or with `cells` [rows][columns] a map of values from light to dark."""

    title: Text
    x: Text
    y: Text
    lines: list[Line] = []
    cells: list[list[float]] | None = None
    log_x: bool = False
    log_y: bool = False


class Measured(Value):
    """What a lab's `measure` gives. finding: a sentence of the measured numbers, true whatever the verdict. limits: where
    the claim stops being true, in words, one for each limit or note worth telling."""

    columns: list[Column]
    rows: list[dict[str, Cell]]
    checks: list[Check]
    finding: Text
    limits: list[Text] = []
    plots: list[Plot] = []


class Result(Measured):
    """A lab's result, complete: what is stored, and all that tables, pictures and pages are made from.

    quote_verdicts: of each quote alone. expected: the documented verdict. sabotage: what was broken on purpose, or None.
    settings: size ("fast", "usual", "full"), seed. environment: versions, threads, machine. seconds: what it took.
    """

    schema_name: Literal["regard.lab/1"] = Field(default=SCHEMA, alias="schema")
    lab: str
    number: int
    title: Text
    quotes: list[Quote]
    quote_verdicts: list[Verdict]
    design: Design
    verdict: Verdict
    expected: Verdict
    sabotage: Text | None = None
    settings: dict[str, str | int]
    environment: dict[str, str | int]
    seconds: float

    model_config = ConfigDict(serialize_by_alias=True, validate_by_alias=True)

    @model_validator(mode="after")
    def _follows(self) -> Result:
        each = [verdict_of(self.checks, number + 1) for number in range(len(self.quotes))]
        if self.verdict != verdict_of(self.checks) or self.quote_verdicts != each:
            raise ValueError(f"lab {self.lab}: the verdict is not what the checks say")
        return self

    @property
    def as_documented(self) -> bool:
        """Whether all is as it should be: the documented verdict, or under sabotage a claim that now fails or holds, and
        not for want of a control; or, of a stored result that is not there yet, nothing to be so."""
        if not self.checks:
            return True
        if self.sabotage is None:
            return self.verdict == self.expected
        return self.verdict not in (self.expected, "inconclusive")

    def json_value(self) -> dict[str, Any]:
        """The result as JSON types; `Result.model_validate` reads it back."""
        return {"schema": SCHEMA} | self.model_dump(mode="json")


def schema() -> dict[str, Any]:
    """The JSON schema of a stored result."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Result.model_json_schema()
