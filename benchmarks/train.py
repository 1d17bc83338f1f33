"""Training throughput: the same data, vocabulary, shape and budget of tokens in regard and in its peers.

Each run is a process of its own in that program's environment; runs are interleaved, since a machine's speed drifts.
Real (not padded) target tokens a second, as a ratio regard / peer and as a share of what the machine's matrix products
would allow.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import environments
from benchmarks.data import BUDGET, VOCABULARY, export
from benchmarks.measure import Run, call, figures, gemm_rate, in_turns, machine, parser, ratios, summary, told
from benchmarks.peers import tools

SHAPES: dict[str, dict[str, Any]] = {
    "transformer": {
        "num_layers": 3,
        "d_model": 256,
        "d_ff": 1024,
        "num_heads": 4,
        "dropout": 0.1,
        "attention_dropout": 0.1,  # torch and JoeyNMT have one rate for all three
        "activation_dropout": 0.1,
    },
    "rnn": {"cell": "lstm", "num_layers": 1, "d_model": 256, "attention": "general", "input_feeding": True, "dropout": 0.1},
}
PEERS = {"transformer": ("torch", "transformers", "trainer", "eole", "opennmt", "joeynmt"), "rnn": ("eole", "joeynmt")}
LIBRARIES = {"torch": "torch", "transformers": "transformers", "trainer": "transformers"}
WORKER = Path(__file__).parent / "peers" / "train.py"


def flops_per_target(source: float, target: float, shape: dict[str, Any], vocabulary: int = VOCABULARY) -> float:
    """Matrix-product operations of a training step for each real target token (backward = 2 × forward). source, target: mean
    tokens of a pair, with eos. Of the RNN the recurrent cells, the attention, the readout and the output layer."""
    d = shape["d_model"]
    if "d_ff" in shape:
        f, layers = shape["d_ff"], shape["num_layers"]
        encoder = layers * (4 * d * d + 2 * d * f + 2 * source * d) + layers * 2 * d * d
        decoder = layers * (6 * d * d + 2 * d * f + 2 * target * d + 2 * source * d) + d * vocabulary
    else:  # 4 gates; the encoder's two directions are half as wide each; input feeding widens the decoder's input
        encoder = 2 * 4 * (d * d // 2 + d * d // 4) + d * d
        decoder = 4 * (2 * d * d + d * d) + 2 * source * d + 2 * d * d + d * vocabulary
    return 6 * (decoder + encoder * source / target)


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    its = parser("train", __doc__)
    its.add_argument("--kind", choices=SHAPES, default="transformer")
    its.add_argument("--peers", default="torch,transformers", help="of torch, transformers, trainer, eole, opennmt, joeynmt")
    its.add_argument("--updates", type=int, default=15)
    its.add_argument("--warm", type=int, default=5)
    its.add_argument("--budget", type=int, default=BUDGET, help="tokens of a batch on its longer side, padding counted")
    its.add_argument("--set", action="append", default=[], help="further settings of the recipe that names the data")
    its.add_argument("--shape", default="", help="other sizes, as JSON")
    its.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "regard" / "benchmarks")
    options = its.parse_args(arguments)
    shape = SHAPES[options.kind] | json.loads(options.shape or "{}")
    data = export(options.cache, options.set)
    peers = [name for name in options.peers.split(",") if name]
    wrong = [name for name in peers if name not in PEERS[options.kind]]
    if wrong:
        its.error(f"{wrong[0]}: is no peer of {options.kind}; known: {', '.join(PEERS[options.kind])}")
    counts = options.budget, options.updates, options.warm
    pythons = {name: environments.interpreter(LIBRARIES.get(name, name), options.installed) for name in peers}
    systems = {
        name: _system(name, pythons.get(name, sys.executable), data, options.kind, shape, counts)
        for name in ("regard", *peers)
    }
    found = in_turns(systems, options.rounds, "target")
    report = {
        "benchmark": "train",
        "kind": options.kind,
        "machine": machine(),
        "shape": shape,
        "batch_tokens": options.budget,
    }
    report["versions"] = {name: environments.version(LIBRARIES.get(name, name), python) for name, python in pythons.items()}
    return told(report | tell(found, shape, data), options.json)


def _system(
    name: str, python: str, data: Path, kind: str, shape: dict[str, Any], counts: tuple[int, int, int]
) -> Callable[[], Run]:
    if name in tools.TOOLS:
        return lambda: tools.run(name, python, data, kind, shape, counts) | {"gemm": gemm_rate()}
    numbers = [str(part) for pair in zip(("--budget", "--updates", "--warm"), counts) for part in pair]
    told = ["--system", name, "--kind", kind, "--data", str(data), "--shape", json.dumps(shape), *numbers]
    return lambda: call(python, WORKER, *told)


def tell(found: dict[str, list[Run]], shape: dict[str, Any], data: Path) -> dict[str, Any]:
    """Figures a system, ratios round by round, and the share of the ceiling."""
    ids = json.loads((data / "ids.json").read_text(encoding="utf-8"))
    source, target = (sum(len(row) + 1 for row in ids[f"train.{side}"]) / len(ids["train.en"]) for side in ("en", "fr"))
    pieces = json.loads((data / "vocabulary.json").read_text(encoding="utf-8"))["pieces"]
    flops = flops_per_target(source, target, shape, len(pieces))
    systems = figures(found)
    for name, runs in found.items():
        systems[name]["of_ceiling"] = summary([run["target"] * flops / (run["gemm"] * 1e9) for run in runs])
    return {"systems": systems, "ratios": ratios(found, "target")}
