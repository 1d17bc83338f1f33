"""A load test of `regard serve` on loopback: many clients at once beside one, latency, throughput, memory.

`python -m benchmarks serve MODEL --clients 64 --seconds 60 --json serve.json`. The server is a process of its own; the
clients are plain sockets in this one, so that little of the machine goes to them. Ends with 1 if a request fails, memory
grows, or many clients together are not served GAIN times as fast as one alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks import promises
from benchmarks.measure import machine

TEXTS = [
    "A man in a blue shirt is standing on a ladder cleaning a window .",
    "Two dogs run through the snow .",
    "A young woman sits on a bench and reads a book while her son plays with a red ball in the grass .",
    "People are waiting for a train .",
    "A group of children in yellow vests crosses the street behind their teacher , who holds up a sign .",
    "The old man sleeps on a chair .",
    "Three girls in white dresses dance on a small stage in front of many people .",
    "A boy jumps into the water .",
]
GAIN = 4.0
"""Requests a second of many clients, as a multiple of one's, that batching must give."""
GROWTH = 1.1
"""Memory at the end, as a multiple of that after the first fifth, that still counts as flat."""


class Connection:
    """One client that keeps its connection."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def __aenter__(self) -> Connection:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def post(self, path: str, body: Any) -> tuple[int, bytes]:
        """Status and body of the answer."""
        content = json.dumps(body).encode()
        heads = ["Host: 127.0.0.1", "Content-Type: application/json", f"Content-Length: {len(content)}"]
        self.writer.write("\r\n".join([f"POST {path} HTTP/1.1", *heads, "", ""]).encode() + content)
        status = int((await self.reader.readline()).split()[1])
        length = 0
        while (line := await self.reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, await self.reader.readexactly(length)


class Load:
    """What so many clients saw in so many seconds."""

    def __init__(self, texts: list[str], process: psutil.Process) -> None:
        self.texts, self.process = texts, process
        self.seconds: list[float] = []
        self.statuses: dict[int, int] = {}
        self.memory: list[float] = []

    async def run(self, port: int, clients: int, seconds: float) -> dict[str, Any]:
        """Every client asks again as soon as it is answered."""
        began, before = time.perf_counter(), self._cpu()
        end = began + seconds
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch(end))
            for number in range(clients):
                group.create_task(self._client(port, number, end))
        taken = time.perf_counter() - began
        return {
            "clients": clients,
            "requests": len(self.seconds),
            "per_second": round(len(self.seconds) / taken, 1),
            "cpu_ms_a_request": round((self._cpu() - before) / max(len(self.seconds), 1) * 1e3, 2),
            "p50_ms": round(statistics.median(self.seconds) * 1e3, 1),
            "p95_ms": round(sorted(self.seconds)[int(0.95 * (len(self.seconds) - 1))] * 1e3, 1),
            "errors": sum(count for status, count in self.statuses.items() if status != 200),
            "memory_mb": [round(one) for one in (self.memory[len(self.memory) // 5], self.memory[-1])],
        }

    async def _client(self, port: int, number: int, end: float) -> None:
        async with Connection(port) as connection:
            while time.perf_counter() < end:
                text = self.texts[number % len(self.texts)]
                began = time.perf_counter()
                status, _ = await connection.post("/translate", {"q": text, "source": "auto", "target": self.target})
                self.seconds.append(time.perf_counter() - began)
                self.statuses[status] = self.statuses.get(status, 0) + 1
                number += 7

    def _all(self) -> list[psutil.Process]:
        return [self.process, *self.process.children(recursive=True)]

    def _cpu(self) -> float:
        return sum(one.cpu_times().user + one.cpu_times().system for one in self._all())

    async def _watch(self, end: float) -> None:
        while time.perf_counter() < end:
            self.memory.append(sum(one.memory_info().rss for one in self._all()) / 1e6)
            await asyncio.sleep(0.5)

    target = "fr"


def table(report: dict[str, Any], language: str) -> str:
    """The figures as a table of a page."""
    one, many = report["one"], report["many"]
    first, last = many["memory_mb"]
    clients, seconds = many["clients"], report["seconds"]
    each = f"{clients} clients", f"{clients} 个客户端"
    rows: list[promises.Row] = [
        ((f"{each[0]} for {seconds:g} s: errors", f"{each[1]}，{seconds:g} 秒：错误"), f"{many['errors']:,}", "0"),
        ((f"{each[0]}: requests a second", f"{each[1]}：每秒请求"), f"{many['per_second']:,.1f}", ""),
        (("one client: requests a second", "一个客户端：每秒请求"), f"{one['per_second']:,.1f}", ""),
        (("gain of batching", "合批的收益"), f"{report['gain']:.1f} ×", f"≥ {GAIN:g} ×"),
        ((f"{each[0]}: answered within, half and 95 %", f"{each[1]}：半数与 95 % 在此之内"), _within(many), ""),
        (("one client: the same", "一个客户端：同上"), _within(one), ""),
        (("time of the processor a request", "每个请求的处理器时间"), f"{many['cpu_ms_a_request']:.1f} ms", ""),
        (
            ("memory after a fifth of the time, at the end", "内存：五分之一时与结束时"),
            f"{first:,}, {last:,} MB",
            f"≤ {GROWTH:g} ×",
        ),
    ]
    return promises.table(rows, language)


def _within(found: dict[str, Any]) -> str:
    return f"{found['p50_ms']:,.0f}, {found['p95_ms']:,.0f} ms"


def main(arguments: list[str]) -> int:
    """Run both loads and print what came out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks serve")
    parser.add_argument("model", help="folder of a translator")
    parser.add_argument("--input", type=Path, help="lines to translate; default: eight captions")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args(arguments)
    texts = given.input.read_text(encoding="utf-8").splitlines() if given.input else TEXTS
    command = [sys.executable, "-m", "regard", "serve", given.model, "--port", "0", "--workers", str(given.workers)]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        line = ""
        while not line.startswith("serving"):
            line = server.stderr.readline()
            if not line:
                print("the server did not start", file=sys.stderr)
                return 2
        port = int(line.rsplit(":", 1)[1])
        drain = subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
        process = psutil.Process(server.pid)
        asyncio.run(Load(texts, process).run(port, 4, 1.0))  # warm
        one = asyncio.run(Load(texts, process).run(port, 1, given.seconds / 2))
        many = asyncio.run(Load(texts, process).run(port, given.clients, given.seconds))
    finally:
        server.terminate()
        server.wait(60)
    drain.wait(10)
    found = {
        "benchmark": "serve",
        "machine": machine(),
        "workers": given.workers,
        "seconds": given.seconds,
        "one": one,
        "many": many,
    }
    found["gain"] = round(many["per_second"] / one["per_second"], 2)
    print(json.dumps(found, indent=2))
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    first, last = many["memory_mb"]
    return int(bool(one["errors"] or many["errors"]) or last > GROWTH * first or found["gain"] < GAIN)
