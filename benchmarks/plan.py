"""What `regard plan` forecasts for ranks of this machine, beside what they need: bytes of tensors, seconds of an update.

In each round every rank plans the recipe by itself, all at the same time: the rate of products that one reaches beside the
others, and how fast DDP and FSDP2 exchange bare layers, is what is forecast from. Then they train together, one thread
each, DDP and FSDP2, without and with activation checkpointing. Memory is told by torch's tracker, for a largest batch on
each rank.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict
from itertools import islice
from typing import Any

from benchmarks.measure import ROOT, machine, parser, summary, told

SETTINGS = (
    "data.max_pairs=6000",
    "model.d_model=256",
    "model.d_ff=1024",
    "model.num_layers=3",
    "training.optimizer=adamw",
    "training.batch_tokens=2000",
    "training.device=cpu",
    "training.threads=1",
)
"""What changes the recipe: weights and batches large enough that work and tensors are what counts."""
NARROW, WARM = 16, 2
"""Width of layers with hardly a weight; passes that are not timed, in which DDP finds its buckets."""
WAYS = {f"{kind}{' + checkpointing' if again else ''}": (kind, again) for kind in ("ddp", "fsdp") for again in (False, True)}
WORDS = {
    "way": "方式",
    "memory, forecast": "内存，预测",
    "measured": "实测",
    "measured over forecast": "实测与预测之比",
    "seconds an update, forecast": "每次更新秒数，预测",
}


def launch(count: int, *arguments: str) -> dict[str, Any]:
    """What the first of `count` processes prints that torchrun starts on a benchmark: the last line, a JSON object."""
    torchrun = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(count), "-m", "benchmarks"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-m", *torchrun, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().split("\n")[-1])


def recipe_of(options: argparse.Namespace, count: int, *settings: str) -> Any:
    """The recipe, each of so many ranks having one batch of an update."""
    from regard.training.recipe import load_recipe

    return load_recipe(options.recipe, [*SETTINGS, f"training.accumulate={count}", *options.set, *settings])


def work(options: argparse.Namespace) -> dict[str, Any]:
    """A round, on each rank."""
    import torch

    from regard.training import machines, ranks
    from regard.training.plan import plan

    torch.set_num_threads(1)
    count = options.ranks
    recipe = recipe_of(options, count)
    alone = plan(recipe, options.updates)  # not joined yet: as one process would, beside the others
    ranks.join(cpu=True)
    needs = ranks.first(lambda: machines.needs_of(recipe, alone))
    flops = statistics.mean(ranks.gather(alone.flops_per_second))
    there = {kind: reached(kind, needs, count, flops) for kind in ("ddp", "fsdp")}
    machine_of = {kind: one.model_dump() for kind, one in there.items()}
    found: dict[str, Any] = {"machines": machine_of, "needs": asdict(needs), "ways": {}}
    for name, (kind, again) in WAYS.items():
        one = machines.forecast(needs, there[kind], kind, again)
        chosen = [f"training.parallel={kind}", f"training.activation_checkpointing={str(again).lower()}"]
        its = trained(recipe_of(options, count, *chosen), options.updates)
        found["ways"][name] = {
            "memory": {"forecast": one.memory, "measured": its["bytes"]},
            "seconds": {"forecast": one.step, "measured": needs.update_tokens / its["per_second"]},
        }
    ranks.leave()
    return found


def reached(kind: str, needs: Any, count: int, flops: float) -> Any:
    """So many ranks of this machine, as they exchange under DDP or FSDP2: measured around bare layers, as many as the recipe
    has blocks, with hardly a weight each for the latency of a collective, with as many as its largest for the rate."""
    from regard.training.machines import Machines, collectives

    layers, width = max(needs.blocks, 1), round(needs.largest**0.5)
    rate, latency = 1.0, 0.0
    if count > 1:
        bare, full = (exchange(kind, layers, size) for size in (NARROW, width))
        few, _ = collectives(kind, 4.0 * layers * NARROW**2, 0.0, layers)
        many, volume = collectives(kind, 4.0 * layers * width**2, 0.0, layers)
        latency = bare / few
        rate = volume * (count - 1) / count / max(full - many * latency, 1e-9) / 1e9
    return Machines(
        count=count,
        per_host=count,
        memory_gb=1000.0,
        peak_tflops=flops / 1e12,
        utilisation=1.0,
        host_gb_s=rate,
        network_gb_s=rate,
        latency_us=latency * 1e6 / max(count - 1, 1).bit_length(),
        overlap=0.0,
    )


def exchange(kind: str, layers: int, width: int, times: int = 9) -> float:
    """Seconds more that a forward and a backward of bare layers take, each `width` wide, when ranks share them."""
    import torch
    from torch import distributed, nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    def stack() -> Any:
        return nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(layers)))

    def seconds(model: Any) -> float:
        distributed.barrier()
        began = time.perf_counter()
        model(torch.zeros(1, width)).sum().backward()
        model.zero_grad(set_to_none=True)
        return time.perf_counter() - began

    alone, shared = stack(), stack()
    if kind == "ddp":
        shared = DistributedDataParallel(shared, gradient_as_bucket_view=True)
    else:
        mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
        for part in (*shared, shared):
            fully_shard(part, mesh=mesh)
    found = [seconds(shared) - seconds(alone) for _ in range(WARM + times)]
    return max(statistics.median(found[WARM:]), 0.0)


def trained(recipe: Any, updates: int) -> dict[str, float]:
    """Target tokens a second and seconds an update of all ranks, and the most bytes of tensors of this one."""
    import tempfile
    from pathlib import Path

    import torch
    from torch.distributed._tools.mem_tracker import MemTracker

    from regard.batches import Stream, ordered
    from regard.training import ranks
    from regard.training.loop import forward_backward, steps
    from regard.training.parallel import Summed
    from regard.training.plan import keeps_most
    from regard.training.prepare import prepare
    from regard.training.run import Run

    with tempfile.TemporaryDirectory() as folder:
        run = Run(recipe, ranks.in_turn(lambda: prepare(recipe)), Path(folder))
    going = steps(run)
    list(islice(going, WARM))
    ranks.wait()
    began = time.perf_counter()
    tokens = sum(step.target_tokens for step in islice(going, updates))
    seconds = time.perf_counter() - began
    data, objective = run.prepared.train, run.prepared.objective
    stream = Stream(data, run.stream.budget, recipe.training.seed, objective=objective)
    batches = [*islice(stream, 4), next(iter(ordered(data, run.stream.budget, objective=objective)))]
    with run.autocast():
        largest = keeps_most(Summed(run.description.build(), recipe.training.label_smoothing), batches)
    tracker = MemTracker()
    tracker.track_external(run.model, run.optimizer)
    with tracker:
        for _ in range(2):  # in the first it gets to know DDP's buckets, which are there already
            forward_backward(run, [largest])
            run.update()
            tracker.reset_mod_stats()
    peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]["Total"]
    return {"per_second": tokens / seconds, "seconds": seconds / updates, "bytes": peak}


def table(report: dict[str, Any], language: str) -> str:
    """Forecasts beside measurements."""
    names = ["way", "memory, forecast", "measured", "measured over forecast"]
    names += ["seconds an update, forecast", "measured", "measured over forecast"]
    head = [name if language == "en" else WORDS[name] for name in names]
    lines = [f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
    for name, its in report["ways"].items():
        cells = [name]
        for what, form in (("memory", lambda value: f"{value / 1e6:,.1f} MB"), ("seconds", lambda value: f"{value:.3f}")):
            ratio = its[what]["ratio"]
            cells += [form(its[what][kind]["median"]) for kind in ("forecast", "measured")]
            cells.append(f"{ratio['median']:.2f} ({ratio['min']:.2f}–{ratio['max']:.2f})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    its = parser("plan", __doc__, rounds=3)
    its.add_argument("--recipe", default="demo")
    its.add_argument("--set", action="append", default=[], help="further settings of the recipe")
    its.add_argument("--ranks", type=int, default=2)
    its.add_argument("--updates", type=int, default=8)
    its.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = its.parse_args(arguments)
    if options.work:
        found = work(options)
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps(found))
        return 0
    from regard.training.prepare import prepare

    prepare(recipe_of(options, options.ranks))  # once, so that ranks find it
    rounds = []
    for number in range(options.rounds):
        rounds.append(launch(options.ranks, "plan", *arguments, "--work"))
        for name, way in rounds[-1]["ways"].items():
            shown = ", ".join(f"{what} {one['measured'] / one['forecast']:.2f}" for what, one in way.items())
            print(f"round {number + 1}, {name}: measured over forecast: {shown}", file=sys.stderr, flush=True)
    report: dict[str, Any] = {"benchmark": "plan", "machine": machine(), "ranks": options.ranks, "recipe": options.recipe}
    report |= {"settings": [*SETTINGS, *options.set], "machines": rounds[0]["machines"], "needs": rounds[0]["needs"]}
    report["ways"] = {}
    for name in rounds[0]["ways"]:
        report["ways"][name] = {}
        for what in ("memory", "seconds"):
            runs = [one["ways"][name][what] for one in rounds]
            made = {kind: summary([run[kind] for run in runs]) for kind in ("forecast", "measured")}
            report["ways"][name][what] = made | {"ratio": summary([run["measured"] / run["forecast"] for run in runs])}
    return told(report, options.json)
