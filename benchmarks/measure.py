"""What all benchmarks share: the machine, the rate of its matrix products, medians and ratios."""

from __future__ import annotations

import os
import platform
import statistics
import time
from pathlib import Path
from typing import Any

import torch


def machine() -> dict[str, Any]:
    """What these figures were measured on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().split("\n") if line.startswith("model name")]
        model = names[0] if names else model
    return {"cpu": model, "cores": os.cpu_count(), "threads": torch.get_num_threads(), "torch": torch.__version__}


def gemm_rate(rows: int = 4096, inner: int = 256, columns: int = 1024, seconds: float = 1.0) -> float:
    """GFLOP/s of a matrix product of a training step's size: the ceiling, measured in the same minute."""
    a, b = torch.randn(rows, inner), torch.randn(inner, columns)
    rates, end = [], time.perf_counter() + seconds
    with torch.inference_mode():
        while time.perf_counter() < end:
            began = time.perf_counter()
            a @ b
            rates.append(2 * rows * inner * columns / (time.perf_counter() - began) / 1e9)
    return statistics.median(rates[len(rates) // 4 :])


def summary(values: list[float]) -> dict[str, float]:
    """Median, least and most."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}
