"""The whole server: documents, health, memory, strange requests."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from regard.errors import UserError
from regard.serving.served import Source
from regard.serving.server import listen


def test_health_and_its_end(client_of: Callable[..., Any]) -> None:
    client = client_of()
    assert client.get("/healthz").json() == {"status": "ok"}
    client.app.service.engine.close()
    stopped = client.get("/healthz")
    assert (stopped.status_code, stopped.json()) == (503, {"status": "stopping"})
    late = client.post("/api/translate", {"text": "A dog ."})
    assert (late.status_code, late.headers["retry-after"]) == (503, "5")


def test_the_document_describes_every_route_and_body(client: Any, client_of: Callable[..., Any]) -> None:
    document = client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    paths = set(document["paths"])
    assert {"/api/translate", "/translate", "/v2/translate", "/v1/chat/completions", "/healthz", "/metrics"} <= paths
    text = json.dumps(document)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in document["components"]["schemas"], name
    assert "security" not in text
    locked = client_of(keys=("k",)).get("/openapi.json", headers={"x-api-key": "k"}).json()["paths"]
    assert [path for path, its in locked.items() if any("security" not in one for one in its.values())] == ["/healthz"]
    assert client.get("/docs").status_code == 404  # its page would ask other hosts for its scripts


def test_nothing_points_to_another_place_s_serve_10(client_of: Callable[..., Any]) -> None:
    """Behind a proxy under https://host.example/tr/ whatever is answered stays right: no absolute address is in it."""
    client = client_of(hosts=("host.example",))
    headers = {"host": "host.example", "x-forwarded-proto": "https", "x-forwarded-prefix": "/tr"}
    for path in ("/openapi.json", "/api/models", "/languages", "/frontend/settings", "/v1/models", "/metrics", "/nowhere"):
        found = client.get(path, headers=headers)
        assert not re.search(r"https?://", found.text), path
        assert "location" not in found.headers
    found = client.post("/translate", {"q": "A dog .", "source": "en", "target": "fr"}, headers=headers)
    assert found.status_code == 200
    slash = client.get("/api/models/", headers=headers)
    assert (slash.status_code, "location" in slash.headers) == (404, False)


def test_a_path_of_its_own_behind_a_proxy(models: list[Any], client_of: Callable[..., Any]) -> None:
    client = client_of(keys=("k",))
    app = client.app

    async def under(scope: Any, receive: Any, send: Any) -> None:  # as uvicorn does with --root-path
        await app({**scope, "root_path": "/tr", "path": "/tr" + scope["path"]}, receive, send)

    client.app = under
    assert client.get("/healthz").status_code == 200
    found = client.post("/translate", {"q": "A dog .", "source": "en", "target": "fr", "api_key": "k"})
    assert found.status_code == 200
    refused = client.get("/v1/models")
    assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
    assert client.get("/v2/nothing", headers={"x-api-key": "k"}).json().keys() == {"message"}


@pytest.mark.parametrize("path", ["/api/translate", "/translate", "/v2/translate", "/v1/completions"])
@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b'{"text": "\xff"}', "application/json"),
        (b'{"text"', "application/json"),
        (b"", "application/json"),
        (b"null", "application/json"),
        (b"[" * 100_000, "application/json"),
        (b"text=%FF", "application/x-www-form-urlencoded"),
        (b"<a/>", "application/xml"),
        (b"--x--", "multipart/form-data; boundary=x"),
        (b"\x00\x01", ""),
    ],
)
def test_strange_bodies_s_serve_08(client: Any, path: str, content: bytes, kind: str) -> None:
    found = client("POST", path, content=content, headers={"content-type": kind} if kind else {})
    assert 400 <= found.status_code < 500
    assert found.json()


def test_strange_texts_come_back_whole(client: Any) -> None:
    for text in ("\x00", "\u202e", "a\u0000b", "👨‍👩‍👧", "</script>", "<s></s><pad>", "龘" * 500, "\r\n\r\n", "\ufeff"):
        found = client.post("/api/translate", {"text": text})
        assert found.status_code == 200, text
        parts = found.json()["translations"][0]["sentences"]
        assert all(text[part["start"] : part["start"] + len(part["source"])] == part["source"] for part in parts)


def test_many_first_requests_at_once_s_serve_01(client: Any, translator: Any) -> None:
    texts = [f"A dog {word} ." for word in ("runs", "plays", "looks", "near", "in", "red", "sea", "house")]
    found = client.many([("POST", "/api/translate", {"json": {"text": text}}) for text in texts])
    assert [one.json()["translations"][0]["text"] for one in found] == translator.translate(texts)


def test_methods_and_paths_that_are_not_there(client: Any) -> None:
    assert client.get("/translate").status_code == 405
    found = client("DELETE", "/api/models")
    assert (found.status_code, found.headers["allow"]) == (405, "GET")
    for path in ("/../etc/passwd", "/%2e%2e/x", "/api/models/..%2f", "/static/x"):
        assert client.get(path).status_code in (404, 405)
    assert "location" not in client.get("//evil.example/").headers, "nobody is sent to another machine"


def grown(ask: Callable[[int], None]) -> float:
    """Memory after 2000 calls, in units of that after 200."""
    process, after = psutil.Process(), {}
    for number in range(1, 2001):
        ask(number)
        if number in (200, 2000):
            gc.collect()
            after[number] = process.memory_info().rss
    return after[2000] / after[200]


def test_memory_stays_flat_s_serve_06(engine: Any) -> None:
    """2000 requests of varying length: memory after all of them within 10 % of that after 200."""
    wish = engine.model("en-fr").wish("translate", engine.limits, max_length=2, num_beams=1)

    waiting: list[Any] = []

    def ask(number: int) -> None:
        waiting.append(engine.submit("en-fr", wish, [Source("dog men red house sea " * (1 + number % 9))]))
        if number % 20 == 0:
            assert all(ticket.result() for ticket in waiting)
            waiting.clear()

    assert grown(ask) < 1.1


@pytest.mark.slow
def test_memory_stays_flat_over_http_s_serve_06(client: Any) -> None:
    """The same through all of the server; 20 at a time, some of them refused, some with paths that are not there."""

    def ask(number: int) -> None:
        if number % 20 == 0:
            text = "dog men red house sea " * (1 + number % 9)
            body = {"json": {"text": text, "max_length": 2 if number % 3 else 0, "num_beams": 1}}
            calls = [("POST", "/api/translate" if at else f"/{number}", body) for at in range(20)]
            assert {one.status_code for one in client.many(calls)} <= {200, 400, 404}

    assert grown(ask) < 1.1


def test_listening() -> None:
    with listen("127.0.0.1", 0) as made:
        made.listen()
        port = made.getsockname()[1]
        assert port > 0
        with pytest.raises(UserError, match=rf"cannot listen at 127\.0\.0\.1, port {port}"):
            listen("127.0.0.1", port)
    with pytest.raises(UserError, match=r"cannot listen at no\.such\.host\.invalid"):
        listen("no.such.host.invalid", 1)
