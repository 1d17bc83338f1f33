"""The cost of recording: a forward pass without a recorder, with one over a single layer, and with one over all; and what it
costs to make the weights of that layer, and a whole trace.

Each round measures all arms in turn. Reported are medians of milliseconds, their ratios to the pass without a recorder round
by round, the tape's memory, and whether the outputs are equal bit for bit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import promises
from benchmarks.measure import machine, summary


def setup(length: int, rows: int, layers: int, width: int) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """A model of a usual size with random weights, and ids of both sides."""
    from regard.models import transformer

    torch.manual_seed(1)
    sizes = {"num_layers": layers, "d_model": width, "d_ff": 4 * width, "num_heads": 8, "vocab_size": 8000}
    model = transformer.describe(**sizes).build()
    transformer.initialise(model)
    ids = torch.randint(4, 8000, (2, rows, length))
    return model.eval(), ids[0], ids[1]


def arms(model: Any, source: torch.Tensor, target: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    from regard.inspection.tape import attentions, record

    last = list(attentions(model))[-1]

    def recorded(only: list[str] | None, made: bool = False) -> Any:
        with record(model, only) as tape:
            logits = model(source, target).logits
        if made:
            tape.weights(last)
        return logits, tape.bytes

    return {
        "plain": lambda: (model(source, target).logits, 0),
        "one layer": lambda: recorded([last]),
        "one layer with weights": lambda: recorded([last], True),
        "all layers": lambda: recorded(None),
    }


ARMS = {
    "plain": ("a forward pass", "一次前向"),
    "one layer": ("recording one layer", "记录一层"),
    "one layer with weights": ("recording one layer, its weights made", "记录一层，并算出权重"),
    "all layers": ("recording all layers", "记录所有层"),
}
"""What the arms are called in English and Chinese."""


def table(report: dict[str, Any], language: str) -> str:
    """The figures as a table of a page."""
    rows: list[promises.Row] = []
    for arm, names in ARMS.items():
        time, ratio, held = (report[key][arm] for key in ("milliseconds", "times plain", "tape MiB"))
        told = f"{time['median']:.1f} ms ({time['min']:.1f}–{time['max']:.1f})"
        rows.append((names, told if arm == "plain" else f"{told}, {ratio:.2f} ×, {held:.1f} MiB", ""))
    same = ("answers equal bit for bit", "答案逐位相同")
    rows.append((same, "✓" if all(report["equal bit for bit"].values()) else "✗", "✓"))
    return promises.table(rows, language)


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks record", description=__doc__)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--num-layers", type=int, default=6)
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", default="")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    model, source, target = setup(options.length, options.rows, options.num_layers, options.d_model)
    every = arms(model, source, target)
    times: dict[str, list[float]] = {name: [] for name in every}
    bytes_of: dict[str, int] = {}
    with torch.inference_mode():
        reference = every["plain"]()[0]
        equal = {name: torch.equal(arm()[0], reference) for name, arm in every.items()}
        for _ in range(options.rounds):
            for name, arm in every.items():
                began = time.perf_counter()
                _, bytes_of[name] = arm()
                times[name].append(1000 * (time.perf_counter() - began))
    plain = times["plain"]
    report = {
        "benchmark": "record",
        "machine": machine(),
        "settings": {key: value for key, value in vars(options).items() if key != "json"},
        "milliseconds": {name: summary(values) for name, values in times.items()},
        "times plain": {name: statistics.median(a / b for a, b in zip(values, plain)) for name, values in times.items()},
        "tape MiB": {name: size / 2**20 for name, size in bytes_of.items()},
        "equal bit for bit": equal,
    }
    print(json.dumps(report, indent=1))
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0 if all(equal.values()) else 1
