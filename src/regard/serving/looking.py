"""Our own dialect, looking into models: the words of a place, traces of texts and their blocks, answers without heads."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from regard.serving.bodies import Body, read, takes
from regard.serving.insight import Place, Subject
from regard.serving.refusals import RefusalError
from regard.serving.served import Served, Wish
from regard.serving.service import Service
from regard.serving.waiting import answers, aside, submit

MOST_WORDS = 20
"""Most candidates for one place."""
MOST_FACTOR = 10
"""Most that a head is scaled by."""
SHELF_BYTES = 256 << 20
"""Bytes of all traces that are kept for later questions."""
BYTES: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}
FILES = {"html": "text/html; charset=utf-8", "json": "application/json", "svg": "image/svg+xml", "png": "image/png"}
"""Files that a trace can be had as, by their endings."""
FILE: dict[int | str, dict[str, Any]] = {200: {"content": {kind.partition(";")[0]: {} for kind in FILES.values()}}}
DRAWING = Lock()
"""Settings of a drawing are the process's."""


class _Strict(Body):
    model_config = ConfigDict(extra="forbid")


class WordsBody(_Strict):
    """text: what is translated, or the prompt. prefix: how the answer begins, up to the place. count: most candidates."""

    text: str
    prefix: str = ""
    model: str | None = None
    count: int = 8


class SubjectBody(_Strict):
    """text: what is looked at; pair: a second text. target: the answer that is forced; null: the model's own."""

    text: str
    pair: str | None = None
    target: str | None = None
    model: str | None = None


class TraceBody(SubjectBody):
    """methods: how it is found out what each token was worth; all but the first take many passes."""

    methods: list[Literal["input_x_gradient", "integrated_gradients", "occlusion"]] = Field(default=["input_x_gradient"])


class ChangeBody(SubjectBody):
    """gates: of each attention, by its name, the factor of each head, by its number; null: its mean output instead."""

    gates: dict[str, dict[str, float | None]] = Field(min_length=1)


BODIES = (WordsBody, TraceBody, ChangeBody)


class Shelf:
    """The traces that were made lately, under names that cannot be guessed. The oldest go when there is no room."""

    def __init__(self, most: int = SHELF_BYTES) -> None:
        self.most, self.size = most, 0
        self.traces: OrderedDict[str, tuple[Any, int]] = OrderedDict()

    def put(self, trace: Any) -> str:
        """The name of a trace from now on."""
        name, size = secrets.token_urlsafe(15), max(1, trace.limits.bytes)
        self.traces[name] = trace, size
        self.size += size
        while self.size > self.most and len(self.traces) > 1:
            _, (_, gone) = self.traces.popitem(last=False)
            self.size -= gone
        return name

    def get(self, name: str) -> Any:
        """The trace of a name. RefusalError 404."""
        if name not in self.traces:
            raise RefusalError(404, "there is no trace of this name, or it had to go for newer ones: make it again")
        self.traces.move_to_end(name)
        return self.traces[name][0]


def router(service: Service) -> APIRouter:
    """The routes under /api that look into models."""
    routes = APIRouter(prefix="/api", tags=["inspection"])
    shelf = Shelf()

    @routes.post("/words", openapi_extra=takes(WordsBody))
    async def words(request: Request) -> Response:
        """The likeliest words for a place in an answer."""
        given = await read(request, WordsBody)
        service.check_texts([given.text, given.prefix], "text")
        if not 1 <= given.count <= MOST_WORDS:
            raise RefusalError(400, f"count must be a whole number from 1 to {MOST_WORDS}", "count")
        served = able(service, given.model, "words")
        wish = Wish("words", (("count", given.count),))
        [found] = await _asked(service, served, wish, Place(given.text, given.prefix), request)
        told = [{"text": one.text, "probability": one.probability, "end": one.end} for one in found]
        return JSONResponse({"model": served.name, "words": told})

    @routes.post("/traces", openapi_extra=takes(TraceBody))
    async def make(request: Request) -> Response:
        """Look at a text: a trace without its numbers, which are in its blocks."""
        given = await read(request, TraceBody)
        served, subject = subject_of(service, given, methods=tuple(dict.fromkeys(given.methods)))
        [trace] = await _asked(service, served, Wish("trace"), subject, request)
        trace.model.name = served.name
        return JSONResponse(await aside(trace.limits.bytes, _shown, shelf.put(trace), trace))

    @routes.post("/changes", openapi_extra=takes(ChangeBody))
    async def change(request: Request) -> Response:
        """What a model answers when some of its heads are scaled or silent."""
        given = await read(request, ChangeBody)
        served, subject = subject_of(service, given, gates=gates_of(given.gates))
        [found] = await _asked(service, served, Wish("change"), subject, request)
        return JSONResponse(found)

    _add_kept(routes, shelf)
    return routes


def _add_kept(routes: APIRouter, shelf: Shelf) -> None:
    """What is asked of traces that were made before."""

    @routes.get("/traces/{name}")
    async def trace(name: str) -> Any:
        """A trace that was made before."""
        found = shelf.get(name)
        return JSONResponse(await aside(found.limits.bytes, _shown, name, found))

    @routes.get("/traces/{name}/blocks/{block}", responses=BYTES, response_class=Response)
    async def numbers(name: str, block: str) -> Response:
        """The numbers of a block of a trace: little-endian, as its entry in the trace says."""
        found = shelf.get(name)
        if block not in found.blocks:
            raise RefusalError(404, "the trace has no block of this name")
        heads = {"cache-control": "private, max-age=3600, immutable"}
        return Response(found.block_bytes(block), media_type="application/octet-stream", headers=heads)

    @routes.get("/traces/{name}/export.{kind}", responses=FILE, response_class=Response)
    async def export(
        name: str, kind: Literal["html", "json", "svg", "png"], view: Literal["align", "heads", "grid"] = "align"
    ) -> Response:
        """A trace as one file: a page that opens from a disk, the trace itself, or a picture of it."""
        found = shelf.get(name)
        content = await aside(found.limits.bytes, _exported, found, kind, view)
        heads = {"content-disposition": f'attachment; filename="regard.{kind}"'}
        return Response(content, media_type=FILES[kind], headers=heads)


def _exported(trace: Any, kind: str, view: str) -> str | bytes:
    if kind in ("html", "json"):
        return trace.to_html() if kind == "html" else trace.to_json()
    with DRAWING:
        return trace.to_svg(view) if kind == "svg" else trace.to_png(view)


def _shown(name: str, trace: Any) -> dict[str, Any]:
    return {"id": name} | trace.json_value(inline=False)


async def _asked(service: Service, served: Served, wish: Wish, payload: Any, request: Request) -> Sequence[Any]:
    return await answers(await submit(service.engine, served.name, wish, [payload], None, request.state.request))


def able(service: Service, name: str | None, tool: str) -> Served:
    """The model of a name, or the only one of which this can be asked. RefusalError 404 or 400 names those that can."""
    found = [served for served in service.engine.models.values() if tool in served.tools]
    names = ", ".join(served.name for served in found) or "none"
    if name is None:
        if len(found) == 1:
            return found[0]
        raise RefusalError(400, f"name the model; those that can be asked this: {names}", "model")
    if name not in service.engine.models:
        raise RefusalError(404, f"there is no model of this name; those that can be asked this: {names}", "model")
    if service.engine.models[name] not in found:
        raise RefusalError(400, f"the model {name} cannot be asked this; those that can: {names}", "model")
    return service.engine.models[name]


def subject_of(service: Service, given: SubjectBody, **more: Any) -> tuple[Served, Subject]:
    """The model and what is looked into. more: fields of a Subject. RefusalError: too long, or nothing."""
    texts = [text for text in (given.text, given.pair, given.target) if text is not None]
    service.check_texts(texts, "text")
    if not given.text.strip():
        raise RefusalError(400, "text: there is nothing to look at", "text")
    return able(service, given.model, "trace"), Subject(given.text, given.pair, given.target, **more)


def gates_of(given: dict[str, dict[str, float | None]]) -> Any:
    """Gates as they travel to a worker. RefusalError: a head that is no number, none at all, or a factor out of bounds."""
    for name, heads in given.items():
        wrong = [head for head in heads if not (head.isascii() and head.isdecimal() and len(head) < 6)]
        if wrong or not heads:
            raise RefusalError(400, f"gates.{name[:60]}: heads are named by their numbers, from 0", "gates")
        if not all(factor is None or abs(factor) <= MOST_FACTOR for factor in heads.values()):
            raise RefusalError(400, f"gates.{name[:60]}: factors are numbers from -{MOST_FACTOR} to {MOST_FACTOR}", "gates")
    return tuple((name, tuple((int(head), factor) for head, factor in heads.items())) for name, heads in given.items())
