"""What constraints keep, and what they cost: phrases of the references required and forbidden on a test set.

    python -m benchmarks constraints runs/en-fr --json benchmarks/results/constraints.json

For each sentence a phrase of its reference that the plain translation lacks is required (for every other sentence: that or
another phrase, which never stands in the reference), and a word of the plain translation that the reference lacks is
forbidden. `kept`: the share of promises that the translations keep, read off their text. BLEU and chrF of the plain and of
the constrained translations on these sentences; `time`: constrained beside plain, round by round.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks import promises
from benchmarks.measure import machine, summary

MARKS = ".,;:!?…\"'()«»"


@dataclass(frozen=True)
class Case:
    """A sentence, its reference, and what is asked of its translation."""

    source: str
    reference: str
    require: list[str]
    forbid: list[str]


def phrases(text: str, size: int) -> list[str]:
    """The runs of `size` words in a text that no punctuation stands in."""
    words = text.split()
    runs = (words[at : at + size] for at in range(len(words) - size + 1))
    return [" ".join(run).strip(MARKS) for run in runs if all(word.strip(MARKS) == word for word in run[:-1])]


def cases(sources: Sequence[str], references: Sequence[str], plain: Sequence[str], count: int, seed: int) -> list[Case]:
    """At most so many cases, of sentences whose reference has a phrase that the plain translation lacks."""
    from regard.text.surfaces import occurs

    draw, found = random.Random(seed), []
    for source, reference, said in zip(sources, references, plain):
        lacking = [p for size in (1, 2) for p in phrases(reference, size) if len(p) > 3 and not occurs(p, said)]
        wrong = [word for word in phrases(said, 1) if len(word) > 3 and not occurs(word, reference)]
        if not lacking or len(found) == count:
            continue
        phrase = draw.choice(lacking)
        others = f"{phrase}|zèbre volant" if len(found) % 2 else phrase
        forbid = [word for word in wrong if not occurs(word, phrase)]
        found.append(Case(source, reference, [others], [draw.choice(forbid)] if forbid else []))
    return found


def kept(given: Sequence[Case], texts: Sequence[str]) -> tuple[int, int]:
    """How many promises there are, and how many the texts keep."""
    from regard.text.surfaces import occurs

    held = [any(occurs(p, text) for p in one.split("|")) for case, text in zip(given, texts) for one in case.require]
    held += [not occurs(one, text) for case, text in zip(given, texts) for one in case.forbid]
    return len(held), sum(held)


def measure(translator: Any, given: Sequence[Case], repeats: int, language: str) -> dict[str, Any]:
    """All figures."""
    from regard.evaluation.scores import as_json, score

    sources, references = [case.source for case in given], [[case.reference for case in given]]
    options: dict[str, Any] = {"require": [case.require for case in given], "forbid": [case.forbid for case in given]}
    seconds: dict[str, list[float]] = {"plain": [], "constrained": []}
    texts: dict[str, list[str]] = {}
    for _ in range(repeats):
        for name, more in (("plain", {}), ("constrained", options)):
            began = time.perf_counter()
            texts[name] = translator.translate(sources, **more)
            seconds[name].append(time.perf_counter() - began)
    asked, held = kept(given, texts["constrained"])
    found: dict[str, Any] = {"cases": len(given), "promises": asked, "kept": held / max(1, asked)}
    for name, lines in texts.items():
        found[name] = {
            "kept": kept(given, lines)[1] / max(1, asked),
            "seconds": statistics.median(seconds[name]),
            "scores": as_json(score(lines, references, ["bleu", "chrf"], language)),
        }
    return found | {"time": summary([more / less for more, less in zip(seconds["constrained"], seconds["plain"])])}


def table(report: dict[str, Any], language: str) -> str:
    """The figures as a table of a page."""
    plain, held, time_ = report["plain"], report["constrained"], report["time"]
    cases, asked = f"{report['cases']:,}", f"{report['promises']:,}"
    rows: list[promises.Row] = [
        ((f"promises kept, {asked} in {cases} sentences", f"{cases} 句里的 {asked} 条承诺：做到"), _share(held), "100 %"),
        (("kept by plain translations", "普通翻译碰巧做到"), _share(plain), ""),
    ]
    for metric, name in (("bleu", "BLEU"), ("chrf", "chrF")):
        ours, theirs = (its["scores"][metric]["value"] for its in (held, plain))
        rows.append(
            ((f"{name}, and of plain translations", f"{name}；普通翻译"), f"{ours:.2f}, {theirs:.2f}", f"≥ {theirs:.2f}")
        )
    spread = f"{time_['median']:.2f} × ({time_['min']:.2f}–{time_['max']:.2f})"
    rows.append((("time beside plain search", "时间与普通搜索之比"), spread, "≤ 1.5 ×"))
    return promises.table(rows, language)


def _share(its: dict[str, Any]) -> str:
    return f"{100 * its['kept']:.1f} %"


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks constraints", description=__doc__)
    parser.add_argument("model", help="model folder of a translator")
    parser.add_argument("--data", default="multi30k", help="named data set")
    parser.add_argument("--split", default="test")
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", default="-", help="write the figures here (-: stdout)")
    given = parser.parse_args(arguments)
    from regard.evaluation.task import task_of_pairs
    from regard.files import write_json
    from regard.text.named import find
    from regard.translator import load

    translator = load(given.model)
    source, target = translator.meta["source"], translator.meta["target"]
    task = task_of_pairs(find(given.data, given.split, source, target), source, target)
    sources = list(task.sources or ())
    references = [next(text for text in row if text is not None) for row in zip(*task.references)]
    chosen = cases(sources, references, translator.translate(sources), given.cases, given.seed)
    found = measure(translator, chosen, given.repeats, target)
    print(f"kept {found['kept']:.4f} of {found['promises']}, time {found['time']['median']:.2f} of plain", file=sys.stderr)
    about = {
        "benchmark": "constraints",
        "model": given.model,
        "data": given.data,
        "split": given.split,
        "seed": given.seed,
        "machine": machine(),
    }
    write_json(given.json, about | found)
    return 0
