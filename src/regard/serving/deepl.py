"""DeepL's dialect: POST /v2/translate, GET /v2/languages and /v2/usage, as its client libraries use them."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from regard.serving import languages
from regard.serving.bodies import Body, read, takes
from regard.serving.refusals import RefusalError
from regard.serving.service import How, Service

UNLIMITED = 1_000_000_000_000
"""What DeepL says where no limit is set."""
CUTS = {"0": "no", "1": "lines", "nonewlines": "marks"}
REFUSED = ("tag_handling", "glossary_id", "glossary_ids", "style_id", "translation_memory_id", "custom_instructions")
"""Fields that ask for what no model here does. Others, such as `context`, are wishes, and are passed over."""


class DeepLBody(Body):
    """text: one text or several. split_sentences: "0" no, "1" at marks and line ends, "nonewlines" at marks."""

    text: str | list[str]
    target_lang: str
    source_lang: str | None = None
    split_sentences: Literal["0", "1", "nonewlines"] = "1"
    formality: str = "default"
    show_billed_characters: bool = False
    tag_handling: str | None = None
    glossary_id: str | None = None
    glossary_ids: list[str] | None = None
    style_id: str | None = None
    translation_memory_id: str | None = None
    custom_instructions: list[str] | None = None


class LanguagesBody(Body):
    """type: which side of the models."""

    type: Literal["source", "target"] = "source"


BODIES = (DeepLBody, LanguagesBody)


def router(service: Service) -> APIRouter:
    """The routes under /v2."""
    routes = APIRouter(prefix="/v2", tags=["DeepL"])

    @routes.post("/translate", openapi_extra=takes(DeepLBody, forms=True))
    async def translate(request: Request) -> Response:
        """Translate one text or several."""
        given = await read(request, DeepLBody)
        for name in REFUSED:
            if getattr(given, name):
                raise RefusalError(400, f"{name}: is not offered by this server", name)
        if given.formality in ("more", "less"):
            raise RefusalError(400, f"formality: {given.formality!r} is not offered by this server", "formality")
        texts = [given.text] if isinstance(given.text, str) else given.text
        service.check_texts(texts, "text")
        served = service.between(given.source_lang or None, given.target_lang, ("source_lang", "target_lang"))
        wish = served.wish("translate", service.engine.limits)
        found = await service.translate(served, texts, wish, How(CUTS[given.split_sentences]), request.state.request)
        source = (served.source or "").upper()
        translations: list[dict[str, Any]] = [{"detected_source_language": source, "text": one.text} for one in found]
        if given.show_billed_characters:
            for one, text in zip(translations, texts):
                one["billed_characters"] = len(text)
        return JSONResponse({"translations": translations})

    @routes.get("/languages")
    async def known(request: Request, type: Literal["source", "target"] = "source") -> Any:
        """The languages that models translate from, or into."""
        if await request.body():  # where DeepL's own client puts it, with GET too
            type = (await read(request, LanguagesBody)).type
        codes = {served.source if type == "source" else served.target for served in service.translators}
        return [
            {"language": code.upper(), "name": languages.name(code)}
            | ({"supports_formality": False} if type == "target" else {})
            for code in sorted(filter(None, codes))
        ]

    @routes.get("/usage")
    async def usage() -> Any:
        """Characters translated since the server's start."""
        return {"character_count": service.characters, "character_limit": UNLIMITED}

    return routes
