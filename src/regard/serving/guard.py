"""What every request passes before the server's routes see it: its name, where it comes from, its size, its key; and what
every answer is given: headers, a line in the log, figures."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from regard.serving.metrics import Metrics
from regard.serving.pages import PATHS
from regard.serving.queue import TimeLimitError
from regard.serving.refusals import LIBRETRANSLATE, RefusalError, body, headers, no_key, refusal
from regard.serving.service import Service

log = logging.getLogger("regard.serving")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PUBLIC = ("/healthz", *PATHS)
"""What needs no key."""
LEFT = 499
"""The status, in log and figures, of a request whose client left before its answer."""
LOCAL = ("localhost", "127.0.0.1", "::1")
SECURITY = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
"""Headers of every answer that does not set its own."""
_NAME = re.compile(rb"[A-Za-z0-9._-]{1,64}\Z")


class _Request:
    """What the guard knows of one request while it lasts."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.heads: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            self.heads.setdefault(name.lower(), value)
        told = self.heads.get(b"x-request-id", b"")
        self.name = told.decode() if _NAME.match(told) else uuid.uuid4().hex[:16]
        self.began = time.perf_counter()
        self.status = 0
        self.finished = False

    @property
    def path(self) -> str:
        """The path behind the prefix that a proxy may have left in."""
        return self.scope["path"].removeprefix(self.scope.get("root_path", "").rstrip("/")) or "/"

    def head(self, name: bytes) -> str:
        """A header's value, or nothing."""
        return self.heads.get(name, b"").decode("latin-1")


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: Any, service: Service, metrics: Metrics, patience: float = 30.0) -> None:
        self.app, self.service, self.metrics, self.patience = app, service, metrics, patience
        self.open = 0
        self.keys = [key.encode() for key in service.keys if key]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        request = _Request(scope)
        scope.setdefault("state", {})["request"] = request.name
        self.open += 1
        self.metrics.open.set(self.open)
        try:
            await self._answer(request, receive, self._sender(request, send))
        finally:
            self.open -= 1
            self.metrics.open.set(self.open)
            self._note(request)

    async def _answer(self, request: _Request, receive: Receive, send: Send) -> None:
        try:
            if self.open > self.service.engine.limits.connections:
                raise RefusalError(429, "too many requests are open: try again", seconds=1)
            self._check_origin(request)
            content = await asyncio.wait_for(self._body(request, receive), self.patience)
            if content is None:
                request.status = LEFT
                return
            if request.path not in PUBLIC and not self._known(request, content):
                raise no_key(request.path)
            await self._run(request, content, receive, send)
        except TimeoutError:
            await refuse(send, request.path, RefusalError(408, "the body did not arrive in time"))
        except RefusalError as error:
            await refuse(send, request.path, error)

    def _sender(self, request: _Request, send: Send) -> Send:
        """`send` that adds headers and notes the status."""

        async def adding(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.status = message["status"]
                own = {name.lower() for name, _ in message.get("headers", ())}
                more = SECURITY | {"x-request-id": request.name}
                added = [(name.encode(), value.encode()) for name, value in more.items() if name.encode() not in own]
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            elif not message.get("more_body"):
                request.finished = True
            await send(message)

        return adding

    def _check_origin(self, request: _Request) -> None:
        """Refuse names under which nobody should reach this server (DNS rebinding), and pages of other sites."""
        host = _host(request.head(b"host"))
        allowed = self.service.hosts
        if allowed is not None and "*" not in allowed and host not in (*LOCAL, *allowed):
            raise RefusalError(421, "this server is not reached under that name; its --allow-host says which are right")
        origin = request.head(b"origin")
        if not origin or origin in self.service.origins or "*" in self.service.origins:
            return
        if urlsplit(origin).netloc.lower() != request.head(b"host").lower():
            raise RefusalError(403, "pages of other sites may not use this server; its --cors-origin says which may")

    async def _body(self, request: _Request, receive: Receive) -> bytes | None:
        """The whole body; None if the client left. RefusalError 413."""
        most = self.service.engine.limits.body_bytes
        told = request.head(b"content-length")
        too_long = RefusalError(413, f"the body is longer than {most:,} bytes, the limit of this server")
        if told.isdecimal() and int(told[:20]) > most:
            raise too_long
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise too_long
            if not message.get("more_body"):
                return b"".join(parts)

    def _known(self, request: _Request, content: bytes) -> bool:
        """Whether the request carries one of the keys, in any of the ways that clients send them."""
        if not self.keys:
            return True
        kind, _, value = request.heads.get(b"authorization", b"").partition(b" ")
        told = [request.heads.get(b"x-api-key", b"")]
        if kind.lower() in (b"bearer", b"deepl-auth-key"):
            told.append(value.strip())
        if request.path in LIBRETRANSLATE:
            told += [field.encode("utf-8", "replace") for field in _fields(request, content)]
        return any(hmac.compare_digest(one, key) for one in told for key in self.keys)

    async def _run(self, request: _Request, content: bytes, receive: Receive, send: Send) -> None:
        """The routes; they are cancelled if the client leaves, and with them what the engine does for it."""
        left = asyncio.Event()
        heard = False

        async def hear() -> Message:
            nonlocal heard
            if not heard:
                heard = True
                return {"type": "http.request", "body": content, "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        work = asyncio.ensure_future(self.app(request.scope, hear, send))
        watching = asyncio.ensure_future(watch())
        try:
            longest = self.service.engine.limits.seconds + self.patience
            done, _ = await asyncio.wait({work, watching}, timeout=longest, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and not request.finished:
                left.set()
                work.cancel()
                with suppress(asyncio.CancelledError):
                    await work
                if not done and request.status == 0:
                    raise TimeLimitError("the answer could not be sent in time")
                request.status = LEFT
                return
            await work
        except Exception as error:
            log.exception("id=%s %s failed", request.name, request.path)
            if request.status == 0:
                await refuse(send, request.path, refusal(error))
        finally:
            for task in (work, watching):
                task.cancel()
            await asyncio.gather(work, watching, return_exceptions=True)

    def _note(self, request: _Request) -> None:
        """A line in the log and the figures, without anything that was said."""
        seconds = time.perf_counter() - request.began
        route = getattr(request.scope.get("route"), "path", "other")
        self.metrics.requests.labels(route, str(request.status or LEFT)).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        method = request.scope["method"] if request.scope["method"].isalpha() else "?"
        log.info("id=%s %s %s %d %.1f ms", request.name, method[:10], route, request.status or LEFT, seconds * 1e3)


async def refuse(send: Send, path: str, error: RefusalError) -> None:
    """Send a refusal."""
    content = json.dumps(body(path, error)).encode()
    heads = {"content-type": "application/json", "content-length": str(len(content))} | headers(error)
    pairs = [(name.lower().encode(), value.encode("latin-1")) for name, value in heads.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": pairs})
    await send({"type": "http.response.body", "body": content})


def _host(told: str) -> str:
    """The name in a Host header, without its port."""
    if told.startswith("["):
        return told[1:].partition("]")[0].lower()
    return told.rpartition(":")[0].lower() if told.count(":") == 1 else told.lower()


def _fields(request: _Request, content: bytes) -> list[str]:
    """`api_key` in the address, and in a form or JSON, as LibreTranslate's clients send it."""
    found = parse_qsl(request.scope.get("query_string", b"").decode("latin-1"))
    if "json" in request.head(b"content-type"):
        with suppress(ValueError, RecursionError):
            value = json.loads(content)
            found += list(value.items()) if isinstance(value, dict) else []
    else:
        with suppress(ValueError):
            found += parse_qsl(content.decode("utf-8", "replace"), max_num_fields=100)
    return [value for name, value in found if name == "api_key" and isinstance(value, str)]
