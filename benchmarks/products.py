"""Products of a training step by MKL and by oneDNN, in turns, in GFLOP/s: rows times a weight, the gradients of both.

python -m benchmarks products --json benchmarks/results/products.json
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from benchmarks import promises
from benchmarks.measure import machine, parser, summary, told

SHAPES = ((4096, 256, 256), (4096, 256, 768), (4096, 256, 1024), (4096, 1024, 256), (512, 256, 8000))
"""Rows, width, width after."""
PASSES = ("forward", "to the input", "to the weight")


def passes(rows: int, width: int, after: int) -> dict[str, Callable[[], Any]]:
    """Each pass through `regard.layers.kernels.linear`, without its bookkeeping."""
    import torch

    from regard.layers.kernels import linear

    x, weight, error = torch.randn(rows, width), torch.randn(after, width), torch.randn(rows, after)
    wants_x, wants_weight = x.clone().requires_grad_(), weight.clone().requires_grad_()
    of_x, of_weight = linear(wants_x, weight), linear(x, wants_weight)
    its: tuple[Callable[[], Any], ...] = (
        lambda: linear(x, weight),
        lambda: torch.autograd.grad(of_x, wants_x, error, retain_graph=True),
        lambda: torch.autograd.grad(of_weight, wants_weight, error, retain_graph=True),
    )
    return dict(zip(PASSES, its, strict=True))


def measure(rounds: int, seconds: float = 0.3) -> list[dict[str, Any]]:
    """A row a shape and a pass: GFLOP/s of both, and their ratio, round by round."""
    from regard.layers import kernels

    kept, found = kernels.LARGE, []
    try:
        for shape in SHAPES:
            rates: dict[tuple[str, str], list[float]] = {}
            for _ in range(rounds):
                for library, least in (("mkl", 1 << 62), ("onednn", 0)):
                    kernels.LARGE = least
                    for name, run in passes(*shape).items():
                        rates.setdefault((name, library), []).append(_rate(run, 2 * shape[0] * shape[1] * shape[2], seconds))
            for name in PASSES:
                ours, theirs = rates[name, "onednn"], rates[name, "mkl"]
                both = {"onednn": summary(ours), "mkl": summary(theirs)}
                found.append({"shape": shape, "pass": name, **both, "ratio": summary([a / b for a, b in zip(ours, theirs)])})
    finally:
        kernels.LARGE = kept
    return found


def _rate(run: Callable[[], Any], operations: int, seconds: float) -> float:
    """GFLOP/s: the median over so many seconds, after a first call."""
    run()
    rates, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.perf_counter()
        run()
        rates.append(operations / (time.perf_counter() - began) / 1e9)
    return summary(rates or [0.0])["median"]


def table(report: dict[str, Any], language: str) -> str:
    """The rates as a table of a page."""
    names = {"forward": "前向", "to the input": "对输入的梯度", "to the weight": "对权重的梯度"}
    heads = {
        "en": ("rows × width × after", "pass", "MKL", "oneDNN", "ratio"),
        "zh": ("行 × 宽 × 后", "过程", "MKL", "oneDNN", "比"),
    }
    lines = [
        (
            " × ".join(f"{size:,}" for size in row["shape"]),
            row["pass"] if language == "en" else names[row["pass"]],
            *(f"{row[library]['median']:.0f}" for library in ("mkl", "onednn")),
            f"{row['ratio']['median']:.2f} ({row['ratio']['min']:.2f}–{row['ratio']['max']:.2f})",
        )
        for row in report["products"]
    ]
    return promises.markdown(heads[language], lines)


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    its = parser("products", __doc__)
    options = its.parse_args(arguments)
    return told({"benchmark": "products", "machine": machine(), "products": measure(options.rounds)}, options.json)
