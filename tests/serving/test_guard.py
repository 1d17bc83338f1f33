"""What every request passes: keys, names, origins, sizes; and what every answer carries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from regard.serving.guard import SECURITY, Guard
from regard.serving.metrics import Metrics
from regard.serving.served import Served
from regard.serving.service import Service

KEY = "s3cret-żółć"
HELLO = {"q": "A dog .", "source": "en", "target": "fr"}


def routes(client: Any) -> list[tuple[str, str]]:
    document = client.get("/openapi.json", headers={"x-api-key": KEY.encode()}).json()
    found = [(method.upper(), path.replace("{name}", "en-fr")) for path, its in document["paths"].items() for method in its]
    return [*found, ("GET", "/openapi.json"), ("GET", "/no/such/path"), ("OPTIONS", "/translate"), ("PUT", "/v1/models")]


def test_no_route_but_the_public_one_answers_without_a_key_s_serve_05(client_of: Callable[..., Any]) -> None:
    client = client_of(keys=(KEY, "other"))
    tried = routes(client)
    assert len(tried) > 20
    for method, path in tried:
        for more in ({}, {"headers": {"authorization": "Bearer wrong"}}, {"headers": {"x-api-key": f"{KEY}x".encode()}}):
            found = client(method, path, **more)
            assert found.status_code == (200 if path == "/healthz" else found.status_code)
            assert path == "/healthz" or found.status_code in (401, 403), (method, path)
            assert KEY not in found.text


@pytest.mark.parametrize(
    "more",
    [
        {"headers": {"authorization": f"Bearer {KEY}".encode()}},
        {"headers": {"authorization": f"DeepL-Auth-Key {KEY}".encode()}},
        {"headers": {"x-api-key": KEY.encode()}},
        {"params": {"api_key": KEY}},
        {"json": HELLO | {"api_key": KEY}},
        {"data": HELLO | {"api_key": KEY}},
    ],
)
def test_keys_are_taken_in_every_way_that_clients_send_them(client_of: Callable[..., Any], more: dict[str, Any]) -> None:
    client = client_of(keys=("other", KEY))
    assert client("POST", "/translate", **({"json": HELLO} | more if "data" not in more else more)).status_code == 200


def test_a_key_in_the_body_or_address_is_for_libretranslate_alone(client_of: Callable[..., Any]) -> None:
    client = client_of(keys=(KEY,))
    assert client.get("/v1/models", params={"api_key": KEY}).status_code == 401
    assert client.post("/api/translate", {"text": "A dog .", "api_key": KEY}).status_code == 401
    for odd in (b"[1]", b"[" * 100_000, b'{"api_key": 5}', b"\xff\xfe"):
        found = client("POST", "/translate", content=odd, headers={"content-type": "application/json"})
        assert found.status_code == 403


def test_every_answer_carries_the_headers(client: Any) -> None:
    for path in ("/healthz", "/no/such/path", "/openapi.json", "/api/models"):
        found = client.get(path)
        for name, value in SECURITY.items():
            assert found.headers[name] == value
        assert len(found.headers["x-request-id"]) == 16
        assert not {"server", "access-control-allow-origin", "set-cookie"} & set(found.headers)
    named = client.get("/healthz", headers={"x-request-id": "mine-1"})
    assert named.headers["x-request-id"] == "mine-1"
    for odd in ("a b", "x" * 65, "a\tb", ""):
        assert client.get("/healthz", headers={"x-request-id": odd}).headers["x-request-id"] != odd


def test_the_log_names_requests_and_says_nothing_that_was_said(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="regard.serving"):
        client.post("/translate", HELLO, headers={"x-request-id": "mine-2"})
    assert "id=mine-2 POST /translate 200" in caplog.text
    assert "dog" not in caplog.text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:8000", 200),
        ("good.example", 200),
        ("evil.example", 421),
        ("evil.example:8000", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
    ],
)
def test_names_that_lead_here_by_trickery_are_refused(client_of: Callable[..., Any], host: str, status: int) -> None:
    """DNS rebinding: a page whose name is made to point to this machine."""
    client = client_of(hosts=("good.example",))
    assert client.get("/api/models", headers={"host": host}).status_code == status


def test_any_name_will_do_where_the_server_is_public(client_of: Callable[..., Any]) -> None:
    assert client_of(hosts=None).get("/healthz", headers={"host": "any.example"}).status_code == 200
    assert client_of(hosts=("*",)).get("/healthz", headers={"host": "any.example"}).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://evil.example", 403), ("null", 403), ("http://127.0.0.1", 200), ("http://127.0.0.1:1", 403), (None, 200)],
)
def test_pages_of_other_sites_may_not_even_ask(client: Any, origin: str | None, status: int) -> None:
    """A form or a script of another page needs no permission to send a request; it is refused before it costs anything."""
    headers = {} if origin is None else {"origin": origin}
    assert client("POST", "/translate", data=HELLO, headers=headers).status_code == status


def test_cors_is_for_those_who_were_named(client_of: Callable[..., Any]) -> None:
    client = client_of(origins=("https://good.example",), keys=(KEY,))
    asks = {"origin": "https://good.example", "access-control-request-method": "POST"}
    found = client("OPTIONS", "/translate", headers=asks)
    assert (found.status_code, found.headers["access-control-allow-origin"]) == (200, "https://good.example")
    found = client.post("/translate", HELLO | {"api_key": KEY}, headers={"origin": "https://good.example"})
    assert (found.status_code, found.headers["access-control-allow-origin"]) == (200, "https://good.example")
    found = client.post("/translate", HELLO | {"api_key": KEY}, headers={"origin": "https://evil.example"})
    assert (found.status_code, found.headers.get("access-control-allow-origin")) == (403, None)


def test_bodies_have_a_size(client_of: Callable[..., Any]) -> None:
    client = client_of(body_bytes=100)
    found = client("POST", "/api/translate", content=b"x" * 101)
    assert (found.status_code, "100 bytes" in found.json()["error"]) == (413, True)

    async def chunks() -> Any:
        for _ in range(50):
            yield b"x" * 10

    async def run() -> Any:
        import httpx

        async with httpx.AsyncClient(transport=httpx.ASGITransport(client.app), base_url="http://127.0.0.1") as it:
            return await it.post("/api/translate", content=chunks())

    assert asyncio.run(run()).status_code == 413
    assert client.post("/api/translate", {"text": "A dog ."}).status_code == 200


class Stage:
    """An ASGI connection in the hands of the test."""

    def __init__(self, app: Any, path: str, parts: list[bytes], body_ends: bool = True) -> None:
        self.sent: list[Any] = []
        self.gone = asyncio.Event()
        self.parts, self.body_ends = parts, body_ends
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": [(b"host", b"localhost")]}
        scope |= {"root_path": "", "scheme": "http", "server": ("localhost", 1), "client": ("x", 1), "http_version": "1.1"}
        self.task = asyncio.create_task(app(scope, self.receive, self.send))

    async def receive(self) -> dict[str, Any]:
        if self.parts:
            part = self.parts.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(self.parts) or not self.body_ends}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)


def guard_of(models: list[Served], app: Any, patience: float = 30.0) -> tuple[Guard, Any]:
    from regard.serving.engine import Engine

    engine = Engine([])
    service = Service(engine)
    return Guard(app, service, Metrics(engine), patience), engine


def test_a_client_that_leaves_ends_what_is_done_for_it(models: list[Served], caplog: pytest.LogCaptureFixture) -> None:
    cancelled = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def run() -> Stage:
        stage = Stage(guard_of(models, app)[0], "/x", [b"a", b"b"])
        await asyncio.sleep(0.01)
        stage.gone.set()
        await stage.task
        return stage

    with caplog.at_level(logging.INFO, logger="regard.serving"):
        stage = asyncio.run(run())
    assert cancelled.is_set()
    assert stage.sent == []
    assert " 499 " in caplog.text


def test_a_body_that_does_not_come_is_not_waited_for_forever(models: list[Served]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("the body never came")

    async def run() -> Stage:
        stage = Stage(guard_of(models, app, patience=0.02)[0], "/x", [b"a"], body_ends=False)
        await stage.task
        return stage

    assert asyncio.run(run()).sent[0]["status"] == 408


def test_a_client_that_leaves_within_its_body_is_no_error(models: list[Served]) -> None:
    async def run() -> Stage:
        stage = Stage(guard_of(models, None)[0], "/x", [b"a"], body_ends=False)
        stage.gone.set()
        await stage.task
        return stage

    assert asyncio.run(run()).sent == []


def test_an_answer_that_takes_for_ever_is_given_up(models: list[Served]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(60)

    async def run() -> Stage:
        guard, engine = guard_of(models, app, patience=0.01)
        object.__setattr__(engine.limits, "seconds", 0.01)
        stage = Stage(guard, "/x", [b"a"])
        await stage.task
        return stage

    assert asyncio.run(run()).sent[0]["status"] == 504


def test_an_error_of_the_server_is_told_without_its_inside(models: list[Served], caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("secret")

    async def run() -> Stage:
        stage = Stage(guard_of(models, app)[0], "/v1/x", [b"a"])
        await stage.task
        return stage

    sent = asyncio.run(run()).sent
    assert sent[0]["status"] == 500
    assert b"secret" not in sent[1]["body"]
    assert "secret" in caplog.text


def test_too_many_at_once_are_turned_away(models: list[Served]) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(60)

    async def run() -> list[Stage]:
        guard, engine = guard_of(models, app)
        object.__setattr__(engine.limits, "connections", 2)
        stages = [Stage(guard, "/x", [b"a"]) for _ in range(3)]
        await stages[2].task
        for stage in stages[:2]:
            stage.gone.set()
            await stage.task
        return stages

    stages = asyncio.run(run())
    assert [bool(stage.sent) for stage in stages] == [False, False, True]
    assert stages[2].sent[0]["status"] == 429
    assert (b"retry-after", b"1") in stages[2].sent[0]["headers"]


def test_web_sockets_are_closed() -> None:
    sent = []

    async def run() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        await guard_of([], None)[0]({"type": "websocket"}, None, send)  # type: ignore[arg-type]

    asyncio.run(run())
    assert sent == [{"type": "websocket.close", "code": 1000}]
