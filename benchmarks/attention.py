"""Window attention: time and memory of forward and backward as the text grows, in blocks and in full.

Each measurement is a process of its own, so that its peak is its own; they are interleaved. The same attention with the same
mask; "blocks" is what regard chooses by itself, "dense" a table of Q × K. `ratios` are those of the longest over the
shortest length: 2 is linear, 4 is quadratic; memory counts from before the first pass.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import promises
from benchmarks.measure import machine, peak, summary

LENGTHS = (8192, 16384)
BODIES = ("blocks", "dense")


def work(body: str, length: int, shape: dict[str, int], repeats: int) -> dict[str, float]:
    """Seconds of the fastest pass forward and backward, and MiB at its peak above what was there before."""
    from regard.layers.attention import Attend
    from regard.layers.masks import Global, Window, lower
    from regard.layout import Layout

    torch.manual_seed(1)
    heads, width = shape["num_heads"], shape["head_dim"]
    given = [torch.randn(1, heads, length, width, requires_grad=True) for _ in range(3)]
    attend, layout, before, seconds = Attend(width**-0.5), Layout.unpadded(length), peak(), []
    for _ in range(repeats):
        began = time.perf_counter()
        mask = lower(Window(shape["window"] // 2 + 1) | Global(shape["global_tokens"]), layout, layout)
        if mask.blocked is None:
            raise RuntimeError(f"a window of {shape['window']} is not cut into blocks at {length} tokens")
        if body == "dense":
            mask = replace(mask, allowed=mask.blocked.dense(), blocked=None)
        attend(*given, mask).square().sum().backward()
        seconds.append(time.perf_counter() - began)
    return {"seconds": min(seconds), "mib": peak() - before}


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks attention", description=__doc__)
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)), help="tokens, by commas")
    parser.add_argument("--bodies", default=",".join(BODIES), help="blocks, dense")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--global-tokens", type=int, default=1)
    parser.add_argument("--num-heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=2, help="passes in a process, of which the fastest counts")
    parser.add_argument("--json", default="")
    parser.add_argument("--work", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    shape = {key: getattr(options, key) for key in ("window", "global_tokens", "num_heads", "head_dim")}
    if options.work:
        body, length = options.work.split(":")
        print(json.dumps(work(body, int(length), shape, options.repeats)))
        return 0
    lengths = [int(length) for length in options.lengths.split(",")]
    runs = [(body, length) for length in lengths for body in options.bodies.split(",")]
    found: dict[tuple[str, int], list[dict[str, float]]] = {run: [] for run in runs}
    for number in range(options.rounds):
        for body, length in runs:
            command = [sys.executable, "-m", "benchmarks", "attention", *arguments, "--work", f"{body}:{length}"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[body, length].append(json.loads(done.stdout.strip().split("\n")[-1]))
            its = found[body, length][-1]
            print(f"round {number + 1}, {body}, {length}: {its['seconds']:.2f} s, {its['mib']:.0f} MiB", file=sys.stderr)
    report = tell(found, shape)
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report, indent=1))
    return 0


def tell(found: dict[tuple[str, int], list[dict[str, float]]], shape: dict[str, int]) -> dict[str, Any]:
    """Figures of each body and length, and how they grow, round by round."""
    report: dict[str, Any] = {"benchmark": "attention", "machine": machine(), "shape": shape, "bodies": {}, "ratios": {}}
    for (body, length), runs in found.items():
        report["bodies"].setdefault(body, {})[str(length)] = {key: summary([r[key] for r in runs]) for key in runs[0]}
    lengths = sorted({length for _, length in found})
    for body in report["bodies"]:
        ends = zip(found[body, lengths[0]], found[body, lengths[-1]], strict=True)
        pairs = list(ends)
        report["ratios"][body] = {key: summary([long[key] / short[key] for short, long in pairs]) for key in pairs[0][0]}
    return report


def table(report: dict[str, Any], language: str) -> str:
    """The figures as a table of a page."""
    rows: list[promises.Row] = []
    names = {"blocks": ("in blocks", "分块"), "dense": ("dense", "全表")}
    for body, lengths in report["bodies"].items():
        for length, its in lengths.items():
            told = ", ".join(_spread(its[key], form) for key, form in (("seconds", "{:.2f} s"), ("mib", "{:,.0f} MiB")))
            en, zh = names[body]
            rows.append(((f"{en}, {int(length):,} tokens", f"{zh}，{int(length):,} 个词元"), told, ""))
    shortest, *_, longest = report["bodies"]["blocks"]
    blocks, dense = (report["bodies"][body][longest]["seconds"]["median"] for body in ("blocks", "dense"))
    rows.append((("dense over blocks, the longest", "全表与分块之比，最长的"), f"{dense / blocks:.1f} ×", "≥ 4 ×"))
    for body, (en, zh) in names.items():
        linear = f"{int(longest) / int(shortest):.0f} ×" if body == "blocks" else ""
        told = _spread(report["ratios"][body]["seconds"], "{:.1f} ×")
        rows.append(((f"{en}: the longest over the shortest", f"{zh}：最长与最短之比"), told, linear))
    return promises.table(rows, language)


def _spread(its: dict[str, float], form: str) -> str:
    least, most = (form.split(" ")[0].format(its[end]) for end in ("min", "max"))
    return f"{form.format(its['median'])} ({least}–{most})"
