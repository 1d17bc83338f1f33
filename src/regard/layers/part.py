"""Descriptions as values: frozen dataclasses that print, compare, hash and go through JSON unchanged."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")
_PARTS: dict[str, type] = {}


@dataclass_transform(frozen_default=True)
def part(cls: type[T]) -> type[T]:
    """Make a class a frozen description that `to_json` and `from_json` know by its name."""
    made = dataclass(frozen=True)(cls)
    known = _PARTS.get(made.__name__)
    if known is not None and known.__module__ != made.__module__:
        raise TypeError(f"two parts are named {made.__name__}: in {known.__module__} and in {made.__module__}")
    _PARTS[made.__name__] = made
    return made


def to_json(value: Any) -> Any:
    """A description (or a plain value, or a tuple of either) as JSON types; `from_json` gives back an equal one."""
    if type(value).__name__ in _PARTS and isinstance(value, _PARTS[type(value).__name__]):
        return {"part": type(value).__name__} | {f.name: to_json(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"a description may hold numbers, texts, tuples and parts, not {type(value).__name__}")


def from_json(value: Any, where: str = "description") -> Any:
    """The description that `to_json` wrote. Lists become tuples. ValueError names what is unknown and where it stands."""
    if isinstance(value, list):
        return tuple(from_json(item, f"{where}[{i}]") for i, item in enumerate(value))
    if not isinstance(value, dict):
        return value
    name = value.get("part")
    cls = _PARTS.get(name) if isinstance(name, str) else None
    if cls is None:
        raise ValueError(f"{where}: unknown part {name!r}; known: {', '.join(sorted(_PARTS))}")
    known = {f.name for f in fields(cls)}
    unknown = value.keys() - known - {"part"}
    if unknown:
        raise ValueError(f"{where}: {cls.__name__} has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(known))}")
    try:
        return cls(**{key: from_json(item, f"{where}.{key}") for key, item in value.items() if key != "part"})
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from None
