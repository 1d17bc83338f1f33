"""What all benchmarks share: the machine, the rate of its matrix products, runs that take turns, medians and ratios."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
Run = dict[str, float]


def machine() -> dict[str, Any]:
    """What these figures were measured on."""
    import torch

    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().split("\n") if line.startswith("model name")]
        model = names[0] if names else model
    return {"cpu": model, "cores": os.cpu_count(), "threads": torch.get_num_threads(), "torch": torch.__version__}


def gemm_rate(rows: int = 4096, inner: int = 256, columns: int = 1024, seconds: float = 1.0) -> float:
    """GFLOP/s of a matrix product of a training step's size: the ceiling, measured in the same minute."""
    import torch

    a, b = torch.randn(rows, inner), torch.randn(inner, columns)
    rates, end = [], time.perf_counter() + seconds
    with torch.inference_mode():
        while time.perf_counter() < end or len(rates) < 4:
            began = time.perf_counter()
            a @ b
            rates.append(2 * rows * inner * columns / (time.perf_counter() - began) / 1e9)
    return statistics.median(rates[len(rates) // 4 :])


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median, least and most."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def peak(anew: bool = False) -> float:
    """Most memory of this process so far, or since it was last asked `anew`, and of those that it started and that still
    run, in MiB. What processes share, files and shared memory, counts once."""
    import resource

    if not Path("/proc/self/status").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if anew:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return (_held(os.getpid())["VmHWM"] + sum(_alone(child) for child in _children(os.getpid()))) / 1024


def _held(process: int) -> dict[str, int]:
    """Kilobytes by name, as the system tells them of a process."""
    told = Path(f"/proc/{process}/status").read_text(encoding="utf-8", errors="replace")
    lines = (line.partition(":") for line in told.split("\n"))
    return {name: int(value.split()[0]) for name, _, value in lines if value.endswith("kB")}


def _alone(process: int) -> int:
    """The most kilobytes that a process had to itself; 0 if it is gone."""
    try:
        its = _held(process)
    except OSError:
        return 0
    return max(its.get("VmHWM", 0) - its.get("RssFile", 0) - its.get("RssShmem", 0), 0)


def _children(process: int) -> list[int]:
    """The processes that a process started, and those that these started."""
    found: list[int] = []
    for listed in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += [int(child) for child in listed.read_text(encoding="ascii").split()]
        except OSError:
            continue
    return found + [later for child in found for later in _children(child)]


def call(python: str, script: str | Path, *arguments: str) -> Run:
    """Run a worker in a process of its own; the last line of its output is a JSON object of figures."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "HF_HUB_OFFLINE": "1"}
    command = [python, "-W", "ignore", str(script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().split("\n")[-1])


def in_turns(systems: dict[str, Callable[[], Run]], rounds: int, shown: str) -> dict[str, list[Run]]:
    """Each system once in every round, A B C A B C …, for a machine's speed drifts. shown: the figure told on the way."""
    found: dict[str, list[Run]] = {name: [] for name in systems}
    for number in range(rounds):
        for name, run in systems.items():
            found[name].append(run())
            print(f"round {number + 1}, {name}: {shown} {found[name][-1][shown]:,.1f}", file=sys.stderr, flush=True)
    return found


def ratios(found: dict[str, list[Run]], key: str, ours: str = "regard") -> dict[str, dict[str, float]]:
    """regard's figure over each peer's, round by round."""
    return {
        name: summary([our[key] / their[key] for our, their in zip(found[ours], runs, strict=True)])
        for name, runs in found.items()
        if name != ours
    }


def figures(found: dict[str, list[Run]]) -> dict[str, dict[str, dict[str, float]]]:
    """Median, least and most of every figure of every system."""
    return {name: {key: summary([run[key] for run in runs]) for key in runs[0]} for name, runs in found.items()}


def parser(name: str, about: str | None, rounds: int = 5) -> argparse.ArgumentParser:
    """A command line with what all benchmarks take."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks {name}", description=about)
    made.add_argument("--rounds", type=int, default=rounds, help="turns of each system; the median is told")
    made.add_argument("--json", default="", help="write the figures here")
    made.add_argument("--installed", action="store_true", help="run peers in this environment, whatever version it has")
    return made


def told(report: dict[str, Any], path: str) -> int:
    """Print a report, and write it where it was asked for."""
    text = json.dumps(report, indent=1, ensure_ascii=False)
    if path:
        Path(path).write_text(text + "\n", encoding="utf-8")
    print(text)
    return 0
