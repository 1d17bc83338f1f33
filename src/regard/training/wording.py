"""One plain line for whatever pydantic finds wrong in a recipe."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

from regard.errors import UserError
from regard.training.yaml_source import Key, Source, dump

_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list [a, b]",
    "model_type": "a section of keys",
    "model_attributes_type": "a section of keys",
    "dict_type": "a section of keys",
    "none_required": "null",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def dotted(key: Key) -> str:
    """section.key, with [2] for the third item of a list."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def nearest(key: str, known: Iterable[str]) -> str:
    """ "; did you mean X?" with the known key most like this one, or ""."""
    known = list(known)
    found = difflib.get_close_matches(key, known, 1, 0.75)
    if not found:
        last = key.rpartition(".")[2]
        ends = {name.rpartition(".")[2]: name for name in reversed(known)}
        found = [ends[end] for end in difflib.get_close_matches(last, ends, 1, 0.7)]
    return f"; did you mean {found[0]}?" if found else ""


def keys_of(model: type[BaseModel], prefix: str = "") -> list[str]:
    """All dotted keys of a tree of sections."""
    keys: list[str] = []
    for name, info in model.model_fields.items():
        keys.append(prefix + name)
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            keys += keys_of(info.annotation, f"{prefix}{name}.")
    return keys


def refuse(error: ValidationError, source: Source, known: Iterable[str], prefix: Key = ()) -> UserError:
    """The UserError for the first thing that pydantic found wrong; unknown keys come first."""
    found = sorted(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")[0]
    key = prefix + _standing(found["loc"], error_input(source, prefix))
    if found["type"] == "extra_forbidden":
        return unknown(key, source, known)
    where, name = source.place(key), dotted(key)
    if found["type"] == "missing":
        return UserError(f"{where}: {dotted(prefix + found['loc'])} is missing")
    if found["type"] == "value_error":
        return UserError(": ".join(part for part in (where, name, str(found.get("ctx", {}).get("error"))) if part))
    wanted = _wanted([one for one in error.errors(include_url=False) if _same(one, found)])
    return UserError(f"{where}: {name} must be {wanted}, not {shown(found['input'])}")


def unknown(key: Key, source: Source, known: Iterable[str]) -> UserError:
    """The UserError for a key that nothing knows."""
    return UserError(f"{source.place(key)}: unknown key {dotted(key)}{nearest(dotted(key), known)}")


def shown(value: Any) -> str:
    """A value as a person would write it in the file; text in quotes."""
    if isinstance(value, str):
        return repr(value)
    return "null" if value is None else " ".join(dump(value).split())[:80]


def error_input(source: Source, prefix: Key) -> Any:
    """The raw value that stands at a key."""
    value: Any = source.values
    for part in prefix:
        value = value[part]
    return value


def _standing(loc: tuple[int | str, ...], value: Any) -> Key:
    """The part of an error's location that stands in the file, without pydantic's names for the branches of a union."""
    key: list[int | str] = []
    for part in loc:
        if isinstance(value, (list, dict)) and _holds(value, part):
            value = value[part]  # type: ignore[call-overload]
            key.append(part)
    return tuple(key)


def _holds(value: list[Any] | dict[Any, Any], part: int | str) -> bool:
    return part in value if isinstance(value, dict) else isinstance(part, int) and part < len(value)


def _same(one: Any, other: Any) -> bool:
    shorter = min(len(one["loc"]), len(other["loc"]))
    return one["input"] is other["input"] and one["loc"][: shorter - 1] == other["loc"][: shorter - 1]


def _wanted(errors: list[Any]) -> str:
    wanted: list[str] = []
    for error in errors:
        kind, context = error["type"], error.get("ctx", {})
        if kind == "literal_error":
            text = context["expected"].replace("'", "")
        elif kind in _BOUNDS:
            name, words = _BOUNDS[kind]
            text = f"{words} {context[name]:g}"
        elif kind == "too_short" or kind == "too_long":
            text = f"a list of {context.get('min_length', context.get('max_length'))}"
        else:
            text = _WANTED.get(kind) or error["msg"][0].lower() + error["msg"][1:]
        if text not in wanted:
            wanted.append(text)
    return " or ".join(wanted)
