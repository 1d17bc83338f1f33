"""YAML read with the place of every key, by the rules of YAML 1.2: what looks like a word stays a word.

`no`, `yes`, `on`, `off` and `y` are text (only true and false are truth values); 1e4 and 1e-4 are numbers; 010 is text, so
that a whole number written with a leading zero is refused and not taken for eight; dates and sexagesimal numbers are text.
Keys that stand twice, merge keys and several documents in one file are refused with their line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from regard.errors import UserError
from regard.files import read_plain

Key = tuple[str | int, ...]
LARGEST, MOST = 1 << 20, 10_000
"""Bytes and values that a recipe may have."""
PLAIN = ("tag:yaml.org,2002:seq", "tag:yaml.org,2002:map")

_RULES = (
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:int", r"[-+]?(0|[1-9][0-9_]*)|0x[0-9a-fA-F]+|0o[0-7]+", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9_]*)(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
)


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's implicit types."""


_Loader.yaml_implicit_resolvers = {}


class _Dumper(yaml.SafeDumper):
    """SafeDumper that quotes whatever YAML 1.1 or 1.2 would not read back as text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.yaml_implicit_resolvers = {key: list(rules) for key, rules in yaml.SafeDumper.yaml_implicit_resolvers.items()}
for _tag, _pattern, _first in _RULES:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), list(_first))


def _number(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    return int(loader.construct_scalar(node).replace("_", ""), 0)


def _one_line(dumper: yaml.SafeDumper, values: list[Any]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=True)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    """Unicode's line ends as escapes: left as they are, U+0085 would be folded and read back as a space."""
    style = '"' if any(end in text for end in "\x85\u2028\u2029") else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Loader.add_constructor("tag:yaml.org,2002:int", _number)
_Dumper.add_representer(str, _text)
_Dumper.add_representer(list, _one_line)


@dataclass(frozen=True)
class Source:
    """Values of a YAML mapping and where each key stands ("FILE:LINE", or "command line").

    folder: what relative paths in it are relative to.
    """

    values: dict[str, Any]
    places: dict[Key, str] = field(default_factory=dict)
    name: str = "recipe"
    folder: Path = Path()

    def place(self, key: Key) -> str:
        """Where a key stands, or the nearest part around it that stands somewhere."""
        for end in range(len(key), 0, -1):
            if key[:end] in self.places:
                return self.places[key[:end]]
        return self.name


def read_yaml(path: Path) -> Source:
    """Read a file that holds one mapping; UserError with file and line otherwise."""
    try:
        text = read_plain(path, LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    return parse_yaml(text, str(path), path.parent)


def parse_yaml(text: str, name: str, folder: Path = Path()) -> Source:
    """As `read_yaml`, from text; `name` stands for the file in messages."""
    places: dict[Key, str] = {}
    values = _parse(text, name, places)
    if values is None:
        values = {}
    if not isinstance(values, dict):
        raise UserError(f"{name}:1: a recipe is a mapping (key: value), not {_kind(values)}")
    return Source(values, places, name, folder)


def parse_value(text: str, name: str) -> Any:
    """The value of `key=value` on the command line, read as YAML (flow style lists and mappings too)."""
    try:
        return _parse(text, name, {})
    except UserError as error:
        raise UserError(str(error).replace(f"{name}:1:", f"{name}:", 1)) from None


def dump(value: Any) -> str:
    """A value as YAML in block style, lists in one line; `parse_value` reads it back equal."""
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=10**9)
    return text.removesuffix("...\n").rstrip("\n")


def _parse(text: str, name: str, places: dict[Key, str]) -> Any:
    loader = _Loader(_printable(text, name))
    try:
        node = loader.get_single_node()
        return None if node is None else _value(loader, node, (), name, places)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise UserError(f"{name}:{line}: not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{name}: not valid YAML: {reason}") from None
    finally:
        loader.dispose()


def _printable(text: str, name: str) -> str:
    bad = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + 1
        raise UserError(f"{name}:{line}: not valid YAML: the control character U+{ord(bad.group()):04X} may not stand here")
    return text


def _value(loader: _Loader, node: yaml.Node, key: Key, name: str, places: dict[Key, str]) -> Any:
    places[key] = f"{name}:{node.start_mark.line + 1}"
    if len(places) > MOST:  # a few anchors that hold each other stand for billions
        raise UserError(f"{name}:{node.start_mark.line + 1}: more than {MOST:,} values, which no recipe has")
    if not isinstance(node, yaml.ScalarNode) and node.tag not in PLAIN:
        raise UserError(f"{name}:{node.start_mark.line + 1}: the tag {node.tag!r} is not understood; remove it")
    if isinstance(node, yaml.SequenceNode):
        return [_value(loader, item, (*key, at), name, places) for at, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node, deep=True)
    values: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise UserError(f"{name}:{line}: a key must be a word")
        word = key_node.value
        full = ".".join(map(str, (*key, word)))
        if word == "<<":
            raise UserError(f"{name}:{line}: merge keys (<<) are not understood; use `extends:` or write the keys out")
        if word in values:
            first = places[(*key, word)].rpartition(":")[2]
            raise UserError(f"{name}:{line}: the key {full} stands twice (first in line {first}); keep one of them")
        values[word] = _value(loader, value_node, (*key, word), name, places)
        places[(*key, word)] = f"{name}:{line}"
    return values


def _kind(value: Any) -> str:
    return {list: "a list", str: "text", bool: "a truth value"}.get(type(value), "a number")
