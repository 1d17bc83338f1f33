"""Fetching from a server on this machine: right sums, wrong sums, connections that break off."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.text.download import cache_root, fetch, origin

CONTENT = bytes(range(256)) * 1000
SUM = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves `content` at /file. `ranges`: answers Range; `breaks`: sends so many bytes and closes, once."""

    content = CONTENT
    ranges = True
    breaks: int | None = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        asked = self.headers.get("Range")
        server.asked.append(asked)
        if self.path != "/file":
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and server.ranges else 0
        if start and start >= len(server.content):
            self.send_error(416)
            return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if server.breaks is not None:
            body, server.breaks = body[: server.breaks], None
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("REGARD_ORIGIN", f"http://127.0.0.1:{running.server_address[1]}/")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield running
        running.shutdown()
        thread.join()


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_a_file_is_fetched_once(server: Server, tmp_path: Path) -> None:
    place = tmp_path / "deep" / "file"
    assert fetch("file", SUM, place).read_bytes() == CONTENT
    assert fetch("file", SUM, place) == place
    assert server.asked == [None]
    assert left(place.parent) == ["file"]


def test_a_wrong_sum_is_refused_and_nothing_is_left(server: Server, tmp_path: Path) -> None:
    server.content = CONTENT + b"!"
    with pytest.raises(UserError, match=f"/file: has sha256 .* but {SUM} is expected"):
        fetch("file", SUM, tmp_path / "file")
    assert left(tmp_path) == []


def test_a_fetch_that_broke_off_goes_on_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.breaks = 100_000
    with pytest.raises(UserError, match="broke off after 100,000 of 256,000 bytes; run again to go on"):
        fetch("file", SUM, tmp_path / "file")
    assert left(tmp_path) == ["file.part"]
    assert fetch("file", SUM, tmp_path / "file").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100000-"]
    assert left(tmp_path) == ["file"]


def test_a_server_without_ranges_sends_everything_again(server: Server, tmp_path: Path) -> None:
    server.ranges = False
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    assert fetch("file", SUM, tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("part", [b"damaged", CONTENT[:-1] + b"?", CONTENT + b"more", CONTENT])
def test_whatever_lay_there_before_the_end_is_right(server: Server, tmp_path: Path, part: bytes) -> None:
    (tmp_path / "file.part").write_bytes(part)
    assert fetch("file", SUM, tmp_path / "file").read_bytes() == CONTENT


def test_a_refusing_server_is_quoted(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="/nowhere: the server answers 404 Not Found; set REGARD_DATA"):
        fetch("nowhere", SUM, tmp_path / "file")


def test_no_server_at_all_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("REGARD_ORIGIN", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9/file: cannot be fetched .* set REGARD_DATA"):
        fetch("file", SUM, tmp_path / "file")


def test_where_things_come_from_and_go_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("REGARD_ORIGIN", raising=False)
    assert origin() == "https://raw.githubusercontent.com"
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    assert cache_root() == tmp_path / "data"
    monkeypatch.delenv("REGARD_CACHE")
    assert cache_root() == Path.home() / ".cache" / "regard" / "data"
