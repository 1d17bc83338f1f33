"""The HTTP server: routes of every dialect over one engine, its own document, health and figures."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from regard.errors import UserError
from regard.serving import deepl, libretranslate, looking, native, openai, pages
from regard.serving.guard import PUBLIC, Guard
from regard.serving.metrics import CONTENT, Metrics
from regard.serving.patience import patient
from regard.serving.refusals import KNOWN, RefusalError, body, headers, refusal
from regard.serving.service import Service

log = logging.getLogger("regard.serving")

DIALECTS = (native, looking, libretranslate, deepl, openai)
REFUSALS = {
    "4XX": {"description": "refused; why, in the dialect's own shape", "content": {"application/json": {}}},
    "5XX": {"description": "not done; why, in the dialect's own shape", "content": {"application/json": {}}},
}
SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer"},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
"""How a key is sent; DeepL's and LibreTranslate's clients have ways of their own, which are understood too."""
ABOUT = "Models served by regard, in its own dialect under /api and in those of LibreTranslate, DeepL and OpenAI."


def application(service: Service, patience: float = 30.0) -> Any:
    """The ASGI application. patience: seconds that a request's body may take to arrive. It closes the engine when it is shut
    down."""
    metrics = Metrics(service.engine)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.engine.close)

    app = FastAPI(
        title="regard", description=ABOUT, docs_url=None, redoc_url=None, lifespan=lifespan, redirect_slashes=False
    )
    for dialect in DIALECTS:
        app.include_router(dialect.router(service))
    app.include_router(pages.router())
    _add_own(app, service, metrics)
    _add_errors(app)
    app.openapi = lambda: _document(app, bool(service.keys))  # type: ignore[method-assign]
    guard = Guard(app, service, metrics, patience)
    if not service.origins:
        return guard
    return CORSMiddleware(guard, service.origins, allow_methods=["GET", "POST"], allow_headers=["*"], max_age=600)


def _add_own(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.get("/healthz", tags=["server"])
    async def health() -> Response:
        """Whether the server takes requests; needs no key."""
        if service.engine.stopping:
            return JSONResponse({"status": "stopping"}, 503)
        return JSONResponse({"status": "ok"})

    @app.get("/metrics", tags=["server"], responses={200: {"content": {"text/plain": {}}}}, response_class=Response)
    async def figures() -> Response:
        """Figures for Prometheus."""
        return Response(metrics.text(), headers={"content-type": CONTENT})


def _add_errors(app: FastAPI) -> None:
    async def refused(request: Request, error: Exception) -> Response:
        more = dict(getattr(error, "headers", None) or {})  # Allow, where the method is not
        if isinstance(error, HTTPException):
            error = RefusalError(error.status_code, f"{error.detail}: /openapi.json lists what there is")
        elif isinstance(error, RequestValidationError):
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"][1:])
            error = RefusalError(400, f"{field}: {first['msg']}", field)
        said, path = refusal(error), request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        return JSONResponse(body(path, said), said.status, more | headers(said))

    for kind in (RefusalError, HTTPException, RequestValidationError, *KNOWN, Exception):
        app.add_exception_handler(kind, refused)


def _document(app: FastAPI, keys: bool) -> dict[str, Any]:
    """The OpenAPI document, with the bodies that the routes read by themselves, and the keys that the guard asks for."""
    if app.openapi_schema:
        return app.openapi_schema
    found = get_openapi(title=app.title, version=_version(), description=ABOUT, routes=app.routes)
    kinds: Any = [(kind, "validation") for dialect in DIALECTS for kind in dialect.BODIES]
    _, definitions = models_json_schema(kinds, ref_template="#/components/schemas/{model}")
    found.setdefault("components", {}).setdefault("schemas", {}).update(definitions.get("$defs", {}))
    for path, operations in found["paths"].items():
        for operation in operations.values():
            operation["responses"] = {"200": operation["responses"]["200"]} | REFUSALS
            if keys and path not in PUBLIC:
                operation["security"] = [{name: []} for name in SCHEMES]
    if keys:
        found["components"]["securitySchemes"] = SCHEMES
    app.openapi_schema = found
    return found


def _version() -> str:
    import regard

    return regard.__version__


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0: any that is free. UserError: it cannot be had."""
    made = None
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(family, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        if made is not None:
            made.close()
        raise UserError(f"cannot listen at {host}, port {port}: {error.strerror or error}") from None
    return made


def configured(service: Service, patience: float = 30.0, **more: Any) -> uvicorn.Config:
    """How uvicorn serves the application. more: further settings of uvicorn."""
    return uvicorn.Config(
        application(service, patience),
        http=patient(patience),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(service.engine.limits.grace) + 1,
        **more,
    )


def serve(service: Service, listening: socket.socket, root_path: str = "", proxies: str = "127.0.0.1") -> None:
    """Serve until SIGINT or SIGTERM; then end what was taken on. root_path: the path under which a proxy shows the server.
    proxies: addresses whose X-Forwarded headers are believed, with commas between them."""
    config = configured(service, root_path=root_path, forwarded_allow_ips=proxies)
    # uvicorn raises the signal that stopped it once more at its end, when nothing is left to do for it.
    before = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
