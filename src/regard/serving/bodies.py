"""Request bodies: JSON or a form, into a pydantic model; whatever is wrong is named by field or place."""

from __future__ import annotations

import json
from typing import Any, TypeVar, get_origin
from urllib.parse import parse_qsl

from fastapi import Request
from pydantic import BaseModel, ConfigDict, ValidationError

from regard.serving.refusals import RefusalError

FORM = "application/x-www-form-urlencoded"


class Body(BaseModel):
    """The base of all bodies. Fields of a dialect that mean nothing here are passed over."""

    model_config = ConfigDict(extra="ignore")


B = TypeVar("B", bound=BaseModel)


async def read(request: Request, kind: type[B]) -> B:
    """The body of a request. RefusalError 400 or 415."""
    raw = await request.body()
    content = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content == FORM:
        return validated(kind, form(raw, kind), strict=False)
    if content not in ("", "application/json", "text/json"):
        raise RefusalError(415, f"the body must be JSON (application/json) or a form ({FORM}), not {content!a:.60}")
    return validated(kind, parsed(raw), strict=True)


def parsed(raw: bytes) -> Any:
    """JSON from UTF-8. RefusalError 400 with the place of what is wrong."""
    try:
        found = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
        if b"\\ud" in raw.lower():
            json.dumps(found, ensure_ascii=False).encode("utf-8")
        return found
    except UnicodeEncodeError:
        raise RefusalError(400, "the body holds half a surrogate pair, which is not valid Unicode") from None
    except UnicodeDecodeError as error:
        bad = raw[error.start]
        raise RefusalError(400, f"the body is not valid UTF-8: byte {bad:02X} at place {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise RefusalError(400, f"the body is not JSON: {error.msg}, line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise RefusalError(400, "the body is not acceptable JSON: it is nested too deeply") from None
    except ValueError as error:
        raise RefusalError(400, f"the body is not acceptable JSON: {str(error)[:100]}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def form(raw: bytes, kind: type[BaseModel]) -> dict[str, Any]:
    """The fields of a form; a field that may be a list is one where it is given several times."""
    try:
        pairs = parse_qsl(raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=10_000)
    except UnicodeDecodeError as error:
        raise RefusalError(
            400, f"the form is not valid UTF-8 behind its percent signs, at place {error.start + 1}"
        ) from None
    except ValueError as error:
        raise RefusalError(400, f"the form cannot be read: {error}") from None
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            found[name] = [*found[name], value] if isinstance(found[name], list) else [found[name], value]
        else:
            found[name] = value
    for name, field in kind.model_fields.items():
        if get_origin(field.annotation) is list and isinstance(found.get(name), str):
            found[name] = [found[name]]
    return found


def validated(kind: type[B], found: Any, strict: bool) -> B:
    """The model of what was parsed. RefusalError 400 names the first field that is wrong."""
    if not isinstance(found, dict):
        raise RefusalError(400, f"the body must be an object of fields, not {_json_kind(found)}")
    try:
        return kind.model_validate(found, strict=strict)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = [str(part) for part in first["loc"] if not str(part).startswith(("list[", "str", "function-"))]
        field = ".".join(place).encode("ascii", "backslashreplace").decode()[:80]
        raise RefusalError(400, f"{field}: {first['msg']}", field or None) from None


def _json_kind(value: Any) -> str:
    kinds = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def takes(*kinds: type[BaseModel], forms: bool = False) -> dict[str, Any]:
    """What a route says about its body in the OpenAPI document."""
    schema: dict[str, Any] = {"$ref": f"#/components/schemas/{kinds[0].__name__}"}
    content = {"application/json": {"schema": schema}}
    if forms:
        content[FORM] = {"schema": schema}
    return {"requestBody": {"required": True, "content": content}}
