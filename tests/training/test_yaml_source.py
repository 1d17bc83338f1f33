"""YAML with places: what stays text, what is refused, and that what is written reads back equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.training.yaml_source import dump, parse_value, parse_yaml, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("y", "y"),
        ("NO", "NO"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("1e4", 10000.0),
        ("1e-4", 1e-4),
        ("-.5", -0.5),
        ("1_000", 1000),
        ("0x10", 16),
        ("0o10", 8),
        ("010", "010"),
        ("1:30", "1:30"),
        ("2026-11-29", "2026-11-29"),
        ("1.0.0", "1.0.0"),
        ("e5", "e5"),
        ("[1, no, {a: 2}]", [1, "no", {"a": 2}]),
        ("héllo wörld", "héllo wörld"),
        ("'1'", "1"),
    ],
)
def test_s_cli_05_values_are_read_by_the_rules_of_yaml_1_2(text: str, value: Any) -> None:
    found = parse_value(text, "x")
    assert found == value
    assert type(found) is type(value)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TRAPS = st.sampled_from(
    ["no", "yes", "010", "1e4", "0o7", "~", "", "2026-01-01", "1:30", "<<", "- a", "a: b", "#", "null", "="]
)
VALUES = st.recursive(PLAIN | WORDS | TRAPS, lambda inner: st.lists(inner, max_size=3), max_leaves=4)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_what_is_written_reads_back_equal_and_of_the_same_type(value: Any) -> None:
    found = parse_value(dump({"key": value}), "x")["key"]
    assert repr(found) == repr(value)


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029", "\r", "\n", "\x0b"])
@pytest.mark.parametrize("form", ["{}", "a{}", "{}a", "a{}b", "a {} b", "{}{}"])
def test_line_ends_of_unicode_are_read_back(end: str, form: str) -> None:
    text = form.replace("{}", end)
    assert parse_value(dump({"key": text, "list": [text]}), "x") == {"key": text, "list": [text]}


def test_places_are_lines_of_keys() -> None:
    source = parse_yaml("# first\na:\n  b: 1\n  c: [1,\n    2]\n", "f.yaml")
    assert source.place(("a",)) == "f.yaml:2"
    assert source.place(("a", "b")) == "f.yaml:3"
    assert source.place(("a", "c", 1)) == "f.yaml:5"
    assert source.place(("a", "zz")) == "f.yaml:2"
    assert source.place(("zz",)) == "f.yaml"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", r"f:3: the key a stands twice \(first in line 1\)"),
        ("a:\n  b: 1\n  b: 2\n", r"f:3: the key a.b stands twice \(first in line 2\)"),
        ("a: [1,\nb: 2\n", r"f:\d: not valid YAML"),
        ("a: 1\n\tb: 2\n", r"f:2: not valid YAML"),
        ("- 1\n", "f:1: a recipe is a mapping .* not a list"),
        ("just words", "f:1: a recipe is a mapping .* not text"),
        ("a: 1\n---\nb: 2\n", "f:2: not valid YAML"),
        ("base: &x {a: 1}\nb:\n  <<: *x\n", "f:3: merge keys"),
        ("? [a]\n: 1\n", "f:1: a key must be a word"),
        ("a: !!python/object:os.system x\n", "f:1: not valid YAML"),
        ("a: 1\nb: \x07\n", r"f:2: not valid YAML: the control character U\+0007"),
    ],
)
def test_what_is_no_recipe_is_refused_with_its_line(text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse_yaml(text, "f")


def test_files_are_utf8_with_or_without_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "r.yaml"
    path.write_bytes("\ufeffa: żółć\n".encode())
    assert read_yaml(path).values == {"a": "żółć"}
    path.write_bytes(b"a: 1\nb: \xe9\n")
    with pytest.raises(UserError, match=r"r.yaml:2: not UTF-8"):
        read_yaml(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_yaml(tmp_path / "missing.yaml")
    path.write_bytes(b"")
    assert read_yaml(path).values == {}
