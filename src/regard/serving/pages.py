"""The page: its HTML, script and style, as they were built and shipped. No key is asked for them; what they ask the server
for is."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import APIRouter, Request, Response

FOLDER = "page"
KINDS = {"index.html": "text/html", "inspector.js": "text/javascript", "inspector.css": "text/css"}
PATHS = ("/", "/page/inspector.js", "/page/inspector.css")
"""Where the page is: all its addresses are relative, so that a proxy may show it under any path."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Nothing from anywhere else, and no script but the page's own file, whatever a text holds."""


def router() -> APIRouter:
    """The routes of the page."""
    routes = APIRouter(include_in_schema=False)
    for path in PATHS:
        name = path.rpartition("/")[2] or "index.html"
        routes.add_api_route(path, _answer(name), methods=["GET", "HEAD"])
    return routes


def _answer(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files("regard") / FOLDER / name).read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:24]}"'
    heads = {"content-security-policy": POLICY, "cache-control": "no-cache", "etag": tag}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=heads)
        return Response(content, media_type=f"{KINDS[name]}; charset=utf-8", headers=heads)

    return answer
