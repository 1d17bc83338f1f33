"""Language models: nanoGPT's shape for CPUs, training and generation with a cache, regard beside transformers' GPT-2."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import environments
from benchmarks.measure import Run, call, figures, in_turns, machine, parser, ratios, summary, told

SHAPE = {"num_layers": 4, "num_heads": 4, "d_model": 128, "width": 64, "rows": 12}
WORKER = Path(__file__).parent / "peers" / "lm.py"


def flops_per_token(shape: dict[str, Any], vocabulary: int = 65) -> float:
    """Matrix-product operations of a training step for each token (backward = 2 × forward)."""
    d = shape["d_model"]
    return 6 * (shape["num_layers"] * (12 * d * d + 2 * d * shape["width"]) + d * vocabulary)


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    its = parser("lm", __doc__)
    its.add_argument("--tasks", default="train,generate")
    its.add_argument("--updates", type=int, default=60, help="of a training; texts that are written take a tenth of it")
    its.add_argument("--warm", type=int, default=10)
    its.add_argument("--shape", default="", help="other sizes, as JSON")
    options = its.parse_args(arguments)
    shape = SHAPE | json.loads(options.shape or "{}")
    python = environments.interpreter("transformers", options.installed)
    report: dict[str, Any] = {"benchmark": "lm", "machine": machine(), "shape": shape, "tasks": {}}
    report["versions"] = {"transformers": environments.version("transformers", python)}
    for task in options.tasks.split(","):
        updates = options.updates if task == "train" else max(1, options.updates // 10)

        def system(name: str, python: str, task: str = task, updates: int = updates) -> Callable[[], Run]:
            told = ["--system", name, "--task", task, "--shape", json.dumps(shape)]
            return lambda: call(python, WORKER, *told, "--updates", str(updates), "--warm", str(options.warm))

        ours = ["regard"] if task == "train" else ["regard:compiled", "regard"]
        systems = {name: system(name, sys.executable) for name in ours} | {"transformers": system("transformers", python)}
        found = in_turns(systems, options.rounds, "target")
        made: dict[str, Any] = {"systems": figures(found), "ratios": {name: ratios(found, "target", name) for name in ours}}
        if task == "train":
            flops = flops_per_token(shape)
            for name, runs in found.items():
                shares = [run["target"] * flops / (run["gemm"] * 1e9) for run in runs]
                made["systems"][name]["of_ceiling"] = summary(shares)
        report["tasks"][task] = made
    return told(report, options.json)
