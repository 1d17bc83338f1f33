"""What ensembles, MBR and reranking gain on a test set, each beside the first model alone, with bootstrap.

    python -m benchmarks craft runs/one runs/two runs/three --json benchmarks/results/craft.json
    python -m benchmarks craft runs/one runs/two --reverse runs/back --language runs/lm --right-to-left runs/turned

Systems: the first model with its own search; each other model; all of them as an ensemble; MBR with chrF and with BLEU over
the first model's beam and over its samples, and over the ensemble's beam; the first model's answers reranked, with weights
found on the validation set. For each the scores, their difference from the first model's, its 95 % interval and p of the
paired bootstrap, and the seconds that translating took.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.measure import machine, told
from benchmarks.promises import markdown

METRICS = ("bleu", "chrf")


def systems(options: argparse.Namespace, valid: Any) -> dict[str, Callable[[list[str]], list[str]]]:
    """By name what makes translations of texts."""
    import regard
    from regard.cli.craft import scorer
    from regard.evaluation.rerank import Reranker, tune

    members = [regard.load(folder, options.device) for folder in options.models]
    first, count = members[0], options.candidates
    made: dict[str, Any] = {"first": first.translate}
    for number, one in enumerate(members[1:], 2):
        made[f"model {number}"] = one.translate
    sampled = {"sample": True, "min_p": options.min_p}
    for utility in ("chrf", "bleu"):
        how = {"mbr": utility, "candidates": count}
        made[f"mbr {utility}, beam"] = lambda texts, how=how: first.translate(texts, **how)
        made[f"mbr {utility}, samples"] = lambda texts, how=how: first.translate(texts, **how, **sampled)
    if len(members) > 1:
        together = regard.Ensemble(members, options.models)
        made["ensemble"] = together.translate
        made["ensemble, mbr chrf, beam"] = lambda texts: together.translate(texts, mbr="chrf", candidates=count)
    folders = {"reverse": options.reverse, "language": options.language, "right_to_left": options.right_to_left}
    scorers = [scorer(kind, folder, options.device) for kind, folder in folders.items() if folder]
    if scorers:
        found = tune(Reranker(first, scorers), list(valid.sources), valid.references, options.metric)
        print(f"weights {found.weights}: validation {found.before:.2f}, then {found.after:.2f}", file=sys.stderr)
        made["reranked"] = Reranker(first, scorers, found.weights).translate
    return made


def table(report: dict[str, Any], language: str) -> str:
    """The figures as a table of a page: of each system its scores, and what it gains."""
    head = ("system", "BLEU", "gain, 95 %", "p", "chrF", "gain, 95 %", "p", "s")
    if language == "zh":
        head = ("系统", "BLEU", "增益，95 %", "p", "chrF", "增益，95 %", "p", "秒")
    body = []
    for name, its in report["systems"].items():
        cells = [name]
        for metric in METRICS:
            found = its[metric]
            gain = f"{found['difference']:+.2f} ({found['interval'][0]:.2f} … {found['interval'][1]:.2f})"
            cells += [f"{found['score']:.2f}", *(["", ""] if name == "first" else [gain, f"{found['p']:.3f}"])]
        body.append([*cells, f"{its['seconds']:,.0f}"])
    return markdown(head, body)


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    its = argparse.ArgumentParser(prog="python -m benchmarks craft", description=__doc__)
    its.add_argument("models", nargs="+", help="model folders of one vocabulary, the first one the baseline")
    its.add_argument("--reverse")
    its.add_argument("--language")
    its.add_argument("--right-to-left", dest="right_to_left")
    its.add_argument("--systems", default="", help="these alone, by semicolons, such as 'first;ensemble'")
    its.add_argument("--data", default="multi30k")
    its.add_argument("--source", default="en")
    its.add_argument("--target", default="fr")
    its.add_argument("--split", default="test")
    its.add_argument("--sentences", type=int, default=None)
    its.add_argument("--candidates", type=int, default=32)
    its.add_argument("--min-p", dest="min_p", type=float, default=0.02, help="of the samples (epsilon of the best token)")
    its.add_argument("--metric", default="bleu", help="that reranking is tuned for")
    its.add_argument("--samples", type=int, default=1000)
    its.add_argument("--device", default=None)
    its.add_argument("--json", default="")
    options = its.parse_args(arguments)
    from regard.evaluation.compare import Comparing, compare
    from regard.evaluation.scores import Scoring
    from regard.evaluation.task import task_of_pairs
    from regard.files import write_json
    from regard.text.named import find

    languages = options.source, options.target
    task, valid = (
        task_of_pairs(find(options.data, split, *languages), *languages).first(options.sentences)
        for split in (options.split, "val")
    )
    how = Comparing(METRICS, options.samples, worst=0, scoring=Scoring(options.target))
    sources, rows, plain = list(task.sources or ()), {}, []
    about: dict[str, Any] = {"benchmark": "craft", "machine": machine(), "models": options.models}
    about |= {"data": f"{options.data} {options.split}", "sentences": len(sources), "candidates": options.candidates}
    wanted = [name.strip() for name in options.systems.split(";") if name.strip()]
    every = systems(options, valid)
    if unknown := [name for name in wanted if name not in every]:
        its.error(f"--systems: no {', '.join(map(repr, unknown))}; there are {'; '.join(every)}")
    for name in wanted or every:
        run = every[name]
        began = time.perf_counter()
        texts = run(sources)
        seconds = time.perf_counter() - began
        plain = plain or texts
        tests = compare(task.references, plain, texts, sources, ("first", name), how).tests
        rows[name] = {"seconds": round(seconds, 2)} | {
            test.metric: {
                "score": round(test.second.score, 3),
                "difference": round(test.difference, 3),
                "interval": [round(test.low, 3), round(test.high, 3)],
                "p": round(test.p_value, 4),
            }
            for test in tests
        }
        line = "  ".join(f"{t.metric} {t.second.score:.2f} ({t.difference:+.2f}, p {t.p_value:.3f})" for t in tests)
        print(f"{name}: {line}  {seconds:.1f} s", file=sys.stderr, flush=True)
        if options.json:
            write_json(options.json, about | {"systems": rows})  # some systems take minutes: what is there stays
    return told(about | {"systems": rows}, "")
