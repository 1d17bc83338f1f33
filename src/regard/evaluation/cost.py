"""What it costs to run a model: time, memory, weights."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
STATM = Path("/proc/self/statm")
EVERY = 0.01
"""Seconds between two looks at the memory."""


@dataclass(frozen=True)
class Cost:
    """parameters: numbers that were learned. megabytes: they take. seconds: for all sentences. a_second: sentences. peak:
    megabytes that the process, or the GPU, held more while it translated than before; None where that cannot be seen."""

    name: str
    parameters: int
    megabytes: float
    seconds: float
    a_second: float
    peak: float | None


def measured(name: str, model: Any, count: int, work: Callable[[], T]) -> tuple[T, Cost]:
    """What `work` gives, and what it costs to have this model do it for so many sentences."""
    with _Memory(model.device) as memory:
        began = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - began
    tensors = [*model.parameters(), *model.buffers()]
    size = sum(one.numel() * one.element_size() for one in tensors) / 1e6
    learned = sum(one.numel() for one in model.parameters())
    cost = Cost(name, learned, size, seconds, count / max(seconds, 1e-9), memory.most)
    return result, cost


class _Memory:
    """Looks at the memory from a thread of its own: the GPU's allocator counts by itself, a process has to be watched."""

    def __init__(self, device: Any) -> None:
        self.gpu = device if device.type == "cuda" else None
        self.most: float | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Memory:
        if self.gpu is not None:
            import torch

            torch.cuda.reset_peak_memory_stats(self.gpu)
            self.before = torch.cuda.memory_allocated(self.gpu) / 1e6
        elif STATM.is_file():
            self.before, self.most = _resident(), 0.0
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.gpu is not None:
            import torch

            self.most = torch.cuda.max_memory_allocated(self.gpu) / 1e6 - self.before
        elif self.most is not None:
            self._done.set()
            self._thread.join()

    def _watch(self) -> None:
        last = False
        while not last:
            last = self._done.wait(EVERY)
            self.most = max(self.most or 0.0, _resident() - self.before)


def _resident() -> float:
    """Megabytes of this process that are in memory."""
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
