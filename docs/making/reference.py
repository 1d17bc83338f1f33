"""The reference that comes from the program: names of Python, requests of the server, schemas of traces and labs."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Collection, Iterator
from types import SimpleNamespace
from typing import Any

from making.words import cell, say, sentence, table, value

NAMES = {
    "use": (
        "regard.load", "regard.loaded.Loaded", "regard.Translator", "regard.Translation", "regard.Ensemble",
        "regard.Generator", "regard.Generation", "regard.Classifier", "regard.Classification", "regard.Embedder",
        "regard.Filler", "regard.Filling", "regard.Search", "regard.UserError",
    ),
    "looking": (
        "regard.inspection.inspect", "regard.inspection.Trace", "regard.record", "regard.inspection.tape.Tape",
        "regard.inspection.gate_heads", "regard.inspection.patch_heads", "regard.inspection.head_importance",
    ),
    "inside": ("regard.Description", "regard.Model", "regard.Answer", "regard.Targets", "regard.Layout"),
}  # fmt: skip
"""Public names by the part of the page that tells of them."""


def python(language: str, *parts: str) -> str:
    """Public names with how they are called and what they say of themselves. parts: of NAMES; none for all."""
    return "\n".join(_name(name, language) for part in parts or NAMES for name in NAMES[part])


def _name(name: str, language: str) -> str:
    module, _, last = name.rpartition(".")
    its = getattr(importlib.import_module(module), last)
    fault = inspect.isclass(its) and issubclass(its, Exception)
    call = "" if fault else f"`{_call(name, its)}`\n\n"
    lead, told = items(inspect.getdoc(its) or "", () if fault else _arguments(its), language)
    listed = [f"- `{names}`{_colon(language)}{what}" for names, what in told]
    parts = [f"### {last}\n\n{call}{lead}\n", "\n".join([*listed, ""]) if listed else ""]
    body = [[f"`{_call(one, member, bound=True)}`", _cell(member, language)] for one, member in _members(its)]
    if body:
        parts.append(table(["member", "what it does"], body, language))
    return "\n".join(part for part in parts if part)


def _cell(its: Any, language: str) -> str:
    function = its.fget if isinstance(its, property) else its
    lead, told = items(inspect.getdoc(its) or "", _arguments(function), language)
    lines = [" ".join(lead.split()), *(f"`{names}`{_colon(language)}{what}" for names, what in told)]
    return "<br>".join(cell(line) for line in lines)


def _colon(language: str) -> str:
    return "：" if language == "zh" else ": "


def _arguments(its: Any) -> list[str]:
    return list(inspect.signature(its).parameters)


def items(text: str, names: Collection[str], language: str) -> tuple[str, list[tuple[str, str]]]:
    """What a docstring says at its beginning, paragraph by paragraph, and of names ("width: of a row."); all translated."""
    lead, found = [], []
    known = "|".join(map(re.escape, names)) or "(?!)"
    mark = re.compile(rf"(?:^|(?<=[.;] ))((?:{known})(?:, (?:{known}))*(?:\([^)]*\))?): ")
    for paragraph in text.split("\n\n"):
        first, *rest = mark.split(" ".join(paragraph.split()))
        lead.append(_plain(say(re.sub(";$", ".", first.strip()), language)))
        found += zip(rest[::2], (_plain(say(one.strip().rstrip(".;"), language)) for one in rest[1::2]), strict=True)
    return "\n\n".join(one for one in lead if one), found


def _plain(text: str) -> str:
    """Text whose stars Markdown leaves alone, but for what stands in backticks."""
    parts = text.split("`")
    parts[::2] = [part.replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)


def _call(name: str, its: Any, bound: bool = False) -> str:
    """A name with its arguments and their defaults; properties and attributes without."""
    if isinstance(its, property):
        return name
    shown = []
    for one in list(inspect.signature(its).parameters.values())[1 if bound else 0 :]:
        if one.kind == one.KEYWORD_ONLY and not any(part.startswith("*") for part in shown):
            shown.append("*")
        star = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        default = "" if one.default is one.empty else f"={_default(one.default)}"
        shown.append(f"{star}{one.name}{default}")
    return f"{name}({', '.join(shown)})"


def _default(default: Any) -> str:
    return "…" if "<factory>" in repr(default) else repr(default)


def _members(its: Any) -> Iterator[tuple[str, Any]]:
    """What a class has of its own and tells of, without what begins with an underscore."""
    if not inspect.isclass(its):
        return
    for name, member in vars(its).items():
        function = getattr(member, "__func__", member)
        asked = isinstance(function, property) or inspect.isfunction(function)
        if not name.startswith("_") and asked and inspect.getdoc(function):
            yield name, function


# ---------------------------------------------------------------------------------------------------------- the server


def _document() -> dict[str, Any]:
    """The OpenAPI document of a server; no model is loaded for it."""
    from fastapi import FastAPI

    from regard.serving import server

    app, service = FastAPI(title="regard"), SimpleNamespace(keys=())
    for dialect in server.DIALECTS:
        app.include_router(dialect.router(service))  # type: ignore[arg-type]
    server._add_own(app, service, None)  # type: ignore[arg-type]
    return server._document(app, False)


def http(language: str) -> str:
    """Every request, by dialect, and the fields of every body."""
    document = _document()
    groups: dict[str, list[list[str]]] = {}
    for path, operations in document["paths"].items():
        for method, its in operations.items():
            fields = [_named(one["schema"]) for one in its.get("requestBody", {}).get("content", {}).values()]
            row = [f"`{method.upper()} {path}`", cell(say(its["description"], language)), fields[0] if fields else ""]
            groups.setdefault(its["tags"][0], []).append(row)
    parts = []
    for group, body in groups.items():
        title = sentence(say(f"requests: {group}", language), language)[:-1]
        parts.append(f"### {title}\n\n{table(['request', 'what it does', 'body'], body, language)}")
    for name, schema in document["components"]["schemas"].items():
        if not name.endswith("ValidationError"):
            parts.append(_fields(name, schema, language, "####" if name in _INNER else "###"))
    return "\n".join(parts)


_INNER = ("ChatMessage", "ContentPart", "Message", "StreamOptions")
"""What is a part of a body, not one."""


# --------------------------------------------------------------------------------------------------------- the schemas


def schema(language: str, *which: str) -> str:
    """The fields of a trace, of a lab's result, or of both."""
    from regard.inspection import trace
    from regard.labs.frame import values

    found = {"trace": ("Trace", trace.schema), "lab": ("Result", values.schema)}
    parts = []
    for one in which or found:
        name, make = found[one]
        its = make()
        parts.append(_fields(name, its, language, "###"))
        parts += [_fields(inner, its["$defs"][inner], language, "####") for inner in sorted(its["$defs"])]
    return "\n".join(parts)


def _fields(name: str, its: dict[str, Any], language: str, level: str) -> str:
    """A heading, what the object is, and its fields."""
    fields = its.get("properties", {})
    lead, found = items(its.get("description", ""), fields, language)
    told = {one: what for names, what in found for one in names.split(", ")}
    body = []
    for field, kind in fields.items():
        default = value(kind["default"]) if "default" in kind else ""
        usual = say("required", language) if field in its.get("required", ()) else default
        body.append([f"`{field}`", _named(kind), usual, cell(told.get(field, say(kind.get("description", ""), language)))])
    head = ["field", "type", "default", "what it means"]
    return f"{level} {name}\n\n{lead and lead + NEW}{table(head, body, language)}"


NEW = "\n\n"


def _named(its: dict[str, Any]) -> str:
    """A type of a JSON schema in a cell of a table: names of objects lead to them."""
    text = _kind(its)
    names = re.findall(r"<(\w+)>", text)
    if len(names) == 1 and text == f"<{names[0]}>":
        return f"[{names[0]}](#{names[0].lower()})"
    shown = re.sub(r"<(\w+)>", r"\1", text).replace("|", "\\|")
    links = "".join(f" [↗](#{name.lower()})" for name in dict.fromkeys(names))
    return f"`{shown}`{links}"


def _kind(its: dict[str, Any]) -> str:
    if "$ref" in its:
        return f"<{its['$ref'].rpartition('/')[2]}>"
    if "const" in its:
        return f'"{its["const"]}"'
    if "enum" in its:
        return " | ".join(f'"{one}"' for one in its["enum"])
    if "anyOf" in its:
        return " | ".join(dict.fromkeys(_kind(one) for one in its["anyOf"]))
    if its.get("type") == "array":
        inner = ", ".join(map(_kind, its["prefixItems"])) if "prefixItems" in its else _kind(its.get("items", {}))
        return f"[{inner}]" if "prefixItems" in its else f"[{inner} …]"
    if its.get("type") == "object":
        more = its.get("additionalProperties")
        return f"{{name: {_kind(more)}}}" if isinstance(more, dict) else "object"
    return str(its.get("type", "any"))
