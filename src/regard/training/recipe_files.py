"""Where recipes lie, and how `extends` and command-line overrides are laid on top of one another."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.training.yaml_source import Key, Source, parse_value, read_yaml

PATHS = ("root", "train", "valid", "test")


def folder() -> Path:
    """The folder of the recipes that come with regard: in the package, or at the root of a checkout."""
    package = Path(__file__).resolve().parents[1]
    packed = package / "recipes"
    return packed if packed.is_dir() else package.parents[1] / "recipes"


def names() -> list[str]:
    """The names of the recipes that come with regard."""
    return sorted(path.stem for path in folder().glob("*.yaml"))


def gather(name_or_path: str, overrides: Sequence[str] = ()) -> Source:
    """The raw values of a recipe: what it extends, then the file, then the overrides."""
    path = _locate(name_or_path)
    source = _read(path, ())
    values: dict[str, Any] = {"name": source.values.get("name") or path.stem}
    places: dict[Key, str] = {}
    for text in overrides:
        one = _override(text)
        values, places = merged(values, one.values), {**places, **one.places}
    top = Source(values, places, source.name, source.folder)
    return _laid(source, Source(_absolute(top.values, Path()), places, source.name, source.folder))


def _locate(name: str, beside: Path | None = None, place: str = "") -> Path:
    """A recipe's file by path (relative to `beside`) or by name."""
    path = (beside or Path()) / Path(name).expanduser()
    looks_like_a_path = os.sep in name or "/" in name or name.endswith((".yaml", ".yml"))
    if path.is_file():
        return path
    if path.is_dir() and looks_like_a_path:
        raise UserError(f"{place}{path} is a folder; name a recipe file" + _inside(path))
    if not looks_like_a_path and (folder() / f"{name}.yaml").is_file():
        return folder() / f"{name}.yaml"
    if looks_like_a_path:
        raise UserError(f"{place}{path}: no such recipe file")
    near = difflib.get_close_matches(name, names(), 1, 0.6)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(names())}; or give the path of a file"
    raise UserError(f"{place}no recipe is named {name!r}; {hint}")


def _inside(path: Path) -> str:
    return f", such as {path / 'recipe.yaml'}" if (path / "recipe.yaml").is_file() else ""


def _read(path: Path, seen: tuple[Path, ...]) -> Source:
    path_now = path.resolve()
    source = read_yaml(path)
    values = _absolute(source.values, source.folder)
    base = values.pop("extends", None)
    source = Source(values, source.places, source.name, source.folder)
    if base is None:
        return source
    place = source.place(("extends",))
    if not isinstance(base, str):
        raise UserError(f"{place}: extends names one recipe, by name or path")
    found = _locate(base, source.folder, f"{place}: extends: ")
    if found.resolve() in (*seen, path_now):
        raise UserError(f"{place}: extends goes round in a circle through {found}")
    below = _read(found, (*seen, path_now))
    nameless = {key: value for key, value in below.values.items() if key not in ("name", "description")}
    return _laid(Source(nameless, below.places, below.name, below.folder), source)


def _absolute(values: dict[str, Any], base: Path) -> dict[str, Any]:
    """The values with the paths in `data` made absolute, so that a saved recipe works from anywhere."""
    data = values.get("data")
    if not isinstance(data, dict):
        return dict(values)
    whole = {key: _absolute_path(value, base) if key in PATHS else value for key, value in data.items()}
    if isinstance(data.get("mix"), list):
        whole["mix"] = [
            {**part, "train": _absolute_path(part.get("train"), base)}
            if isinstance(part, dict) and "train" in part
            else part
            for part in data["mix"]
        ]
    return {**values, "data": whole}


def _absolute_path(value: Any, base: Path) -> Any:
    if not isinstance(value, str) or not value or "://" in value:
        return value
    whole = base / Path(value).expanduser()
    parts = [value] if os.path.exists(whole) or "," not in value else value.split(",")
    return ",".join(os.path.abspath(base / Path(part.strip()).expanduser()) for part in parts)


def _override(text: str) -> Source:
    """`key.path=value` as a source of its own; relative paths are relative to the working directory."""
    key_text, equals, value_text = text.partition("=")
    key: Key = tuple(key_text.strip().split("."))
    if not equals or not all(key):
        raise UserError(f"command line: {text!r} is not an override; write key.path=value, such as training.max_steps=1000")
    if len(key) == 2 and key[0] == "search":
        key = ("search", _canonical(key[1]))
    place = "command line"
    value = parse_value(value_text, f"{place}: {key_text.strip()}")
    places: dict[Key, str] = {key[:end]: place for end in range(1, len(key) + 1)}
    values: Any = value
    for part in reversed(key):
        values = {part: values}
    return Source(values, places, place)


def _canonical(name: str) -> str:
    """Our name of a search option that may be in another toolkit's dialect (beam_size); unknown ones as they are."""
    from regard.decoding.options import canonical

    try:
        return canonical(name)
    except UserError:
        return name


def _laid(base: Source, top: Source) -> Source:
    """One source on top of another: sections are merged key by key, all else is replaced. Another architecture starts
    with a model section of its own: the arguments of the old one would mean nothing to it. So does a model that comes from a
    folder where the other did not, or the other way round."""
    under = base.values
    now = top.values.get("model")
    before = under.get("model")
    if isinstance(now, dict) and isinstance(before, dict):
        chosen = now.get("architecture", before.get("architecture"))
        other = "from" in now and bool(now["from"]) != bool(before.get("from"))
        if other or chosen != before.get("architecture"):
            under = {**under, "model": {}}
    return Source(merged(under, top.values), {**base.places, **top.places}, top.name, top.folder)


def merged(under: Any, over: Any) -> Any:
    """Two trees of values, the second on top: sections are merged key by key, all else is replaced."""
    if not isinstance(under, dict) or not isinstance(over, dict):
        return over
    both = dict(under)
    for key, value in over.items():
        both[key] = merged(under[key], value) if key in under else value
    return both
