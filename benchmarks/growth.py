"""Cost as work grows: time and memory against the length of sentences, the size of the model and of the corpus, and ranks.

`python -m benchmarks growth --json growth.json`, eight minutes at most. Each measurement is a process of its own, forked
from this one, which computes nothing; ranks are started by torchrun, one thread each. Rounds go through all points, so that
a slow minute does not meet one of them alone; what there is no time for is named. Slopes are those of straight lines through
the logarithms, with an interval of 95 %: 1 is linear, 2 quadratic, 0 no growth. Memory is what a process takes above what it
had, of ranks the tensors of each.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks import corpus, plan
from benchmarks.measure import Run, machine, parser, peak, summary, told

VOCABULARY, LAYERS, WIDTH, ROWS = 4000, 2, 128, 8
AXES = {
    "length": ("training, one pair of sentences", "tokens"),
    "written": (f"translating {ROWS} sentences, greedy", "tokens"),
    "weights": ("training, 1,024 tokens a side", "weights"),
    "held": ("preparing a corpus in memory", "pairs"),
    "streamed": ("preparing a corpus as a stream", "pairs"),
    "ddp": ("training, an update shared by ranks, DDP", "ranks"),
    "fsdp": ("training, an update shared by ranks, FSDP2", "ranks"),
}
"""What is measured, and what grows."""
WORDS = {
    "what": "做什么",
    "what grows": "什么在增长",
    "seconds": "秒",
    "slope": "斜率",
    "memory": "内存",
    "training, one pair of sentences": "训练，一对句子",
    f"translating {ROWS} sentences, greedy": f"翻译 {ROWS} 句，贪心",
    "training, 1,024 tokens a side": "训练，每侧 1,024 个词元",
    "preparing a corpus in memory": "在内存中准备语料",
    "preparing a corpus as a stream": "以流的方式准备语料",
    "training, an update shared by ranks, DDP": "训练，各进程分担一次更新，DDP",
    "training, an update shared by ranks, FSDP2": "训练，各进程分担一次更新，FSDP2",
    "tokens": "词元",
    "weights": "权重",
    "pairs": "句对",
    "ranks": "进程",
}
PICTURES = (("length", "written"), ("weights",), ("held", "streamed"), ("ddp", "fsdp"))
T95 = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Of Student's distribution, for 1 to 10 degrees of freedom."""


def apart(work: Callable[[int], Run], small: int, size: int) -> Run:
    """What a work of some size gives in a process of its own, and the MiB that it takes beyond those of a small one."""
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)

    def run() -> None:
        from regard.layers.memory import keep_memory

        keep_memory()
        work(small)
        gc.collect()
        before = peak(True)
        theirs.send({"x": size} | work(size) | {"mib": peak() - before})

    process = context.Process(target=run)
    process.start()
    theirs.close()
    try:
        found = ours.recv()
    except EOFError:
        found = None
    process.join()
    if found is None:
        raise RuntimeError(f"a process for size {size} ended with {process.exitcode}")
    return found


def fastest(work: Callable[[], Any], least: float = 0.5) -> float:
    """Seconds of the fastest call, after one that warms up, of as many as fit into some time."""
    work()
    found, end = [], time.perf_counter() + least
    while not found or time.perf_counter() < end:
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return min(found)


def _model(width: int) -> Any:
    import torch

    from regard.models import transformer

    torch.manual_seed(1)
    sizes = {"num_layers": LAYERS, "d_model": width, "d_ff": 4 * width, "num_heads": max(width // 32, 1)}
    model = transformer.describe(vocab_size=VOCABULARY, **sizes).build()
    transformer.initialise(model)
    return model


def updates(rows: int, length: int, width: int) -> Run:
    """Whole updates of a Transformer on random ids Int[rows, length]."""
    import torch

    from regard.architecture import Targets

    model = _model(width).train()
    ids = torch.randint(4, VOCABULARY, (2, rows, length))
    steps = torch.optim.Adam(model.parameters(), fused=True)

    def update() -> None:
        answer = model(ids[0], ids[1], targets=Targets(ids[1], 0.1))
        (answer.loss_sum / answer.count).backward()
        steps.step()
        steps.zero_grad()

    return {"seconds": fastest(update), "weights": sum(p.numel() for p in model.parameters())}


def lengthened(length: int) -> Run:
    """A sentence pair of so many tokens a side."""
    return updates(1, length, WIDTH)


def widened(width: int) -> Run:
    """A model of so many dimensions; what counts is its weights."""
    found = updates(16, 64, width)
    return found | {"x": found["weights"]}


def written(length: int) -> Run:
    """As many tokens read as written, for each of some sentences."""
    import torch

    from regard.decoding.options import Search
    from regard.decoding.search import search
    from regard.layout import Layout

    model = _model(WIDTH).eval()
    ids = torch.randint(4, VOCABULARY, (ROWS, length))
    options = Search(num_beams=1, min_length=length - 1, max_length=length)
    answers: list[Any] = []

    def write() -> None:
        answers[:] = search(model, ids, Layout.unpadded(length), options, 2, 3)

    seconds = fastest(write, 0.0)
    if any(len(one[0].ids) < length - 1 for one in answers):
        raise RuntimeError(f"an answer is shorter than {length} tokens")
    return {"seconds": seconds}


def prepared(folder: Path, stream: bool, count: int) -> Run:
    """Vocabularies learned and ids made from the first pairs of a corpus, by one process, with nothing kept from before."""
    import yaml

    from regard.training.prepare import prepare
    from regard.training.recipe import load_recipe

    data = {"train": f"first-{count}.tsv", "valid": "valid.tsv", "stream": stream, "workers": 1}
    values = {"data": data, "tokenizer": {"kind": "bpe", "vocab_size": VOCABULARY}, "training": {"max_steps": 1}}
    path = folder / f"{'stream' if stream else 'memory'}-{count}.yaml"
    path.write_text(yaml.safe_dump(values | {"model": {"architecture": "transformer", "size": "tiny"}}), encoding="utf-8")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["REGARD_CACHE"] = cache
        began = time.perf_counter()
        prepare(load_recipe(path))
        return {"seconds": time.perf_counter() - began}


def corpora(folder: Path, sizes: Sequence[int]) -> Path:
    """Files of the first pairs of one corpus; gives their folder."""
    place = folder / str(max(sizes))
    corpus.make(place, max(sizes))
    lines = [line for path in sorted(place.glob("part-*.tsv")) for line in path.open(encoding="utf-8")]
    for size in {*sizes, SMALL["pairs"]}:
        (place / f"first-{size}.tsv").write_text("".join(lines[:size]), encoding="utf-8")
    return place


SMALL = {"length": 8, "width": 32, "pairs": 100}
"""What warms a process up before it is measured."""


def ranked(kind: str, its: argparse.Namespace, count: int) -> Run:
    """An update of four batches on so many ranks: seconds, and MiB of tensors of each."""
    more = [part for setting in its.set for part in ("--set", setting)]
    return {"x": count, **plan.launch(count, "growth", "--kind", kind, "--updates", str(its.updates), *more)}


def shared(its: argparse.Namespace) -> Run:
    """The same, on a rank."""
    import torch

    from regard.training import ranks

    torch.set_num_threads(1)
    ranks.join(cpu=True)
    found = plan.trained(plan.recipe_of(its, 4, f"training.parallel={its.kind}"), its.updates)
    ranks.leave()
    return {"seconds": found["seconds"], "mib": found["bytes"] / 2**20}


def points(its: argparse.Namespace) -> dict[tuple[str, int], Callable[[], Run]]:
    """What is to be measured, by axis and size."""
    place = corpora(its.folder, its.pairs)
    found: dict[tuple[str, int], Callable[[], Run]] = {}
    for name, work, small, sizes in (
        ("length", lengthened, SMALL["length"], its.lengths),
        ("written", written, SMALL["length"], its.written),
        ("weights", widened, SMALL["width"], its.widths),
        ("held", partial(prepared, place, False), SMALL["pairs"], its.pairs),
        ("streamed", partial(prepared, place, True), SMALL["pairs"], its.pairs),
    ):
        found |= {(name, size): partial(apart, work, small, size) for size in sizes}
    for kind in ("ddp", "fsdp"):
        found |= {(kind, count): partial(ranked, kind, its, count) for count in its.ranks}
    return found


def slope(x: Sequence[float], y: Sequence[float]) -> dict[str, float] | None:
    """Of the straight line through the logarithms, with an interval of 95 %; None where there is no line."""
    pairs = [(math.log(a), math.log(b)) for a, b in zip(x, y, strict=True) if a > 0 and b > 0]
    across = statistics.fmean(a for a, _ in pairs) if pairs else 0.0
    spread = sum((a - across) ** 2 for a, _ in pairs)
    if len(pairs) < 3 or spread == 0:
        return None
    up = statistics.fmean(b for _, b in pairs)
    found = sum((a - across) * (b - up) for a, b in pairs) / spread
    left = sum((b - up - found * (a - across)) ** 2 for a, b in pairs)
    free = len(pairs) - 2
    error = (T95[free - 1] if free <= len(T95) else 2.1) * math.sqrt(left / free / spread)
    return {"slope": found, "low": found - error, "high": found + error}


def grown(runs: dict[int, list[Run]]) -> dict[str, Any]:
    """The points of an axis; for time and memory the slope of all, and of the first two and the last two points."""
    made: dict[str, Any] = {"points": []}
    for _, each in sorted(runs.items()):
        made["points"].append({"x": each[0]["x"]} | {key: summary([run[key] for run in each]) for key in ("seconds", "mib")})
    every = [run for each in runs.values() for run in each]
    for key in ("seconds", "mib"):
        ends = [(point["x"], point[key]["median"]) for point in made["points"] if point[key]["median"] > 0]
        made[key] = slope([run["x"] for run in every], [run[key] for run in every])
        if made[key] is not None and len(ends) > 2:
            made[key] |= {"first": _between(*ends[:2]), "last": _between(*ends[-2:])}
    return made


def _between(one: tuple[float, float], other: tuple[float, float]) -> float:
    return math.log(other[1] / one[1]) / math.log(other[0] / one[0])


def table(report: dict[str, Any], language: str) -> str:
    """The axes of a report: from and to, and how steep in between."""
    say = (lambda text: text) if language == "en" else WORDS.__getitem__
    head = ["what", "what grows", "seconds", "slope", "memory", "slope"]
    lines = [f"| {' | '.join(map(say, head))} |", "|---|---|" + "---:|" * 4]
    for name, its in report["axes"].items():
        what, counted = AXES[name]
        first, last = its["points"][0], its["points"][-1]
        cells = [say(what), f"{first['x']:,}–{last['x']:,} {say(counted)}"]
        for key, form in (("seconds", "{:.3g}"), ("mib", "{:,.0f}")):
            ends = "–".join(form.format(point[key]["median"]) for point in (first, last))
            cells += [ends + (" MiB" if key == "mib" else ""), _told(its[key])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _told(found: dict[str, float] | None) -> str:
    if found is None:
        return ""
    ends = f", {found['first']:.2f} → {found['last']:.2f}" if "first" in found else ""
    return f"{found['slope']:.2f} ({found['low']:.2f} – {found['high']:.2f}){ends}"


def plot(report: dict[str, Any], path: Path) -> None:
    """Time above, memory below, both axes logarithmic; a line for each series, and its slope."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    shown = [[name for name in names if name in report["axes"]] for names in PICTURES]
    columns = [names for names in shown if names]
    figure, grid = pyplot.subplots(2, len(columns), figsize=(3.2 * len(columns), 5.6), layout="constrained", squeeze=False)
    for column, names in enumerate(columns):
        for row, (key, label) in enumerate((("seconds", "seconds"), ("mib", "MiB"))):
            axes = grid[row][column]
            for name in names:
                its = report["axes"][name]
                steep = "" if its[key] is None else f"{its[key]['slope']:.2f}"
                places = [(point["x"], point[key]["median"]) for point in its["points"] if point[key]["median"] > 0]
                if places:
                    axes.loglog(*zip(*places), marker="o", markersize=3, label=f"{name}: {steep}")
            axes.set_xlabel(AXES[names[0]][1])
            axes.set_ylabel(label)
            axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def measured(its: argparse.Namespace) -> tuple[dict[str, dict[int, list[Run]]], list[str]]:
    """All rounds of all points, and what there was no time for."""
    found: dict[str, dict[int, list[Run]]] = {}
    cost: dict[tuple[str, int], float] = {}
    left, end = [], time.monotonic() + its.seconds
    work = points(its)
    for number in range(its.rounds):
        for (name, size), run in work.items():
            began = time.monotonic()
            if began + cost.get((name, size), 0.0) > end:
                left.append(f"{name} {size}, round {number + 1}")
                continue
            found.setdefault(name, {}).setdefault(size, []).append(run())
            cost[name, size], last = time.monotonic() - began, found[name][size][-1]
            print(f"round {number + 1}, {name} {size}: {last['seconds']:.3f} s, {last['mib']:.1f} MiB", file=sys.stderr)
    return found, left


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""

    def numbers(text: str) -> list[int]:
        return [int(number) for number in text.split(",")]

    its = parser("growth", __doc__, rounds=3)
    its.add_argument("--seconds", type=float, default=460.0, help="no point is begun that would end later")
    its.add_argument("--lengths", type=numbers, default=[64, 128, 256, 512, 1024, 2048, 4096], help="of training")
    its.add_argument("--written", type=numbers, default=[32, 64, 128, 256, 512, 1024], help="of sentences translated")
    its.add_argument("--widths", type=numbers, default=[64, 128, 256, 512, 1024], help="of models")
    its.add_argument("--pairs", type=numbers, default=[2000, 8000, 32_000, 128_000], help="of corpora")
    its.add_argument("--ranks", type=numbers, default=[1, 2, 4])
    its.add_argument("--updates", type=int, default=6, help="of ranks")
    its.add_argument("--recipe", default="demo", help="that ranks share")
    its.add_argument("--set", action="append", default=[], help="further settings of it")
    its.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "regard" / "growth")
    its.add_argument("--kind", default="", help=argparse.SUPPRESS)
    options = its.parse_args(arguments)
    if options.kind:
        figures = shared(options)
        if os.environ.get("RANK", "0") == "0":
            print(json.dumps(figures))
        return 0
    import regard.training.loop  # noqa: F401 (before the first fork)

    found, left = measured(options)
    report: dict[str, Any] = {"benchmark": "growth", "machine": machine(), "left_out": left}
    report["settings"] = {"layers": LAYERS, "width": WIDTH, "vocabulary": VOCABULARY}
    report["settings"]["ranks"] = [*plan.SETTINGS, *options.set]
    report["axes"] = {name: grown(runs) for name, runs in found.items()}
    return told(report, options.json)
