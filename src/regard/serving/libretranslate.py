"""LibreTranslate's dialect: POST /translate, GET /languages, and /detect, which is refused in words."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from regard.serving import languages
from regard.serving.bodies import Body, read, takes
from regard.serving.refusals import RefusalError
from regard.serving.service import Service


class LibreTranslateBody(Body):
    """q: one text or several. source: a language, or "auto" where only one model leads to the target. format: text alone."""

    q: str | list[str]
    target: str
    source: str = "auto"
    format: str = "text"
    alternatives: int = 0


BODIES = (LibreTranslateBody,)


def router(service: Service) -> APIRouter:
    """The routes."""
    routes = APIRouter(tags=["LibreTranslate"])

    @routes.post("/translate", openapi_extra=takes(LibreTranslateBody, forms=True))
    async def translate(request: Request) -> Response:
        """Translate one text or several."""
        return await _translated(service, await read(request, LibreTranslateBody), request.state.request)

    @routes.get("/languages")
    async def known() -> Any:
        """Source languages, and the targets of each."""
        found: dict[str, list[str]] = {}
        for served in service.translators:
            if served.source and served.target:
                found.setdefault(served.source, []).append(served.target)
        return [
            {"code": code, "name": languages.name(code), "targets": sorted(set(targets))}
            for code, targets in sorted(found.items())
        ]

    @routes.post("/detect")
    async def detect() -> Any:
        """Refused: nothing here detects languages."""
        raise RefusalError(400, "languages are not detected here: name the source language of a text yourself")

    @routes.get("/frontend/settings")
    async def settings() -> Any:
        """What LibreTranslate's own pages ask for first."""
        return _settings(service)

    return routes


async def _translated(service: Service, given: LibreTranslateBody, name: str) -> Response:
    limits = service.engine.limits
    if given.format != "text":
        raise RefusalError(400, "format: only text is translated, not markup", "format")
    if not 0 <= given.alternatives <= limits.alternatives:
        raise RefusalError(400, f"alternatives: must be a whole number from 0 to {limits.alternatives}", "alternatives")
    texts = [given.q] if isinstance(given.q, str) else given.q
    service.check_texts(texts, "q")
    served = service.between(None if given.source == "auto" else given.source, given.target)
    wish = served.wish("translate", limits, num_return=given.alternatives + 1 if given.alternatives else None)
    found = await service.translate(served, texts, wish, None, name)
    answer: dict[str, Any] = {"translatedText": [one.text for one in found]}
    if given.alternatives:
        answer["alternatives"] = [one.alternatives(given.alternatives) for one in found]
    if isinstance(given.q, str):
        answer = {name: value[0] for name, value in answer.items()}
    return JSONResponse(answer)


def _settings(service: Service) -> dict[str, Any]:
    pairs = [(one.source, one.target) for one in service.translators if one.source and one.target]
    source, target = pairs[0] if pairs else ("", "")
    return {
        "apiKeys": bool(service.keys),
        "keyRequired": bool(service.keys),
        "charLimit": service.engine.limits.characters,
        "frontendTimeout": 500,
        "suggestions": False,
        "filesTranslation": False,
        "supportedFilesFormat": [],
        "language": {
            "source": {"code": source, "name": languages.name(source)},
            "target": {"code": target, "name": languages.name(target)},
        },
    }
