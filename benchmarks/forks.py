"""Processes of one training as forks of this one, which has imported all that they need."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

GRACE = 5.0
"""Seconds that other ranks have to leave when one was told to stop."""


class Processes:
    """The processes of one training, each a fork of this one. work(rank) is done in each; what it says on stderr goes into
    stderr-RANK.txt."""

    def __init__(self, work: Callable[[int], None], count: int = 1) -> None:
        self.codes: dict[int, int] = {}
        for old in Path().glob("stderr-*.txt"):
            old.unlink()
        port = _free_port() if count > 1 else 0
        self.children = [self._child(work, rank, count, port) for rank in range(count)]

    def _child(self, work: Callable[[int], None], rank: int, count: int, port: int) -> int:
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1):
                os.dup2(nowhere, stream)
            os.dup2(os.open(f"stderr-{rank}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            if count > 1:
                told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port}
                os.environ.update({name: str(value) for name, value in told.items()}, MASTER_ADDR="127.0.0.1")
            work(rank)
            code = 0
        except KeyboardInterrupt:
            code = 130
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode("utf-8", "replace"))
        finally:
            os._exit(code)

    def kill(self, rank: int) -> None:
        """SIGKILL for a process that has not ended."""
        if rank not in self.codes:
            os.kill(self.children[rank], signal.SIGKILL)

    def look(self) -> None:
        """See which have ended."""
        for rank, child in enumerate(self.children):
            if rank not in self.codes:
                done, status = os.waitpid(child, os.WNOHANG)
                if done:
                    self.codes[rank] = os.waitstatus_to_exitcode(status)

    def wait(self, seconds: float = 120.0, kill: float | None = None, victim: int = 0) -> int | None:
        """The exit code of the first to fail, 0 if none does; None if they had to be stopped after `seconds`. kill: SIGKILL
        for process `victim` after so many."""
        began = time.monotonic()
        while not self.codes.keys() >= set(range(len(self.children))):
            if any(self.codes.values()):
                return self._together()
            passed = time.monotonic() - began
            if passed > seconds:
                self._end()
                return None
            if kill is not None and passed > kill:
                self.kill(victim)
                kill = None
            time.sleep(0.002)
            self.look()
        return self._told()

    def _told(self) -> int:
        codes = set(self.codes.values())
        return next((code for code in (-signal.SIGKILL, 130) if code in codes), max(codes, key=abs))

    def _together(self) -> int:
        """One has failed: so do the others, at once, or soon where it was asked to stop."""
        told, end = self._told(), time.monotonic() + GRACE
        while told == 130 and len(self.codes) < len(self.children) and time.monotonic() < end:
            time.sleep(0.002)
            self.look()
        self._end()
        return told

    def _end(self) -> None:
        for rank in range(len(self.children)):
            self.kill(rank)
        while len(self.codes) < len(self.children):
            time.sleep(0.002)
            self.look()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def said() -> str:
    """The end of what the last processes said."""
    return " | ".join(path.read_text(encoding="utf-8")[-600:] for path in sorted(Path().glob("stderr-*.txt")))
