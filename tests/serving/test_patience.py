"""Clients that dawdle."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


def rest(connection: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    connection.settimeout(30)
    found = b""
    while data := connection.recv(65536):
        found += data
    return found


@pytest.mark.parametrize("sent", [b"", b"GET /heal", HEAD])
def test_a_head_that_does_not_come_is_not_waited_for_forever(running_of: Callable[..., Any], sent: bytes) -> None:
    server = running_of(patience=0.3)
    with socket.create_connection(server.socket.getsockname()) as connection:
        connection.sendall(sent)
        assert rest(connection) == b""


def test_connections_that_are_used_stay_open(running_of: Callable[..., Any]) -> None:
    server = running_of(patience=0.3)
    with socket.create_connection(server.socket.getsockname()) as connection:
        for _ in range(3):
            connection.sendall(HEAD + b"\r\n")
            connection.settimeout(30)
            found = b""
            while b"ok" not in found:
                found += connection.recv(65536)
            assert found.startswith(b"HTTP/1.1 200")


def test_a_body_that_does_not_come_is_refused(running_of: Callable[..., Any]) -> None:
    server = running_of(patience=0.3)
    with socket.create_connection(server.socket.getsockname()) as connection:
        connection.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nab")
        connection.settimeout(30)
        assert connection.recv(65536).startswith(b"HTTP/1.1 408")


def test_a_head_without_end_is_refused(running_of: Callable[..., Any]) -> None:
    server = running_of()
    with socket.create_connection(server.socket.getsockname()) as connection:
        connection.sendall(HEAD + b"X: " + b"x" * 70_000)
        assert rest(connection).startswith(b"HTTP/1.1 400")
