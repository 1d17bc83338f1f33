"""How far flags can be trusted: faults are planted in translations of a test set, and the flags are counted.

    python -m benchmarks flags runs/en-fr --data multi30k --split test --json benchmarks/results/flags.json

Good ones: the model's own translations and the references. Faults: a block of words said over and over (loop), the source
itself (copy), the translation of another sentence (swapped), the second half left out (half). For each fault: how many of
the planted are flagged (recall), how many good translations are (alarms), and the precision where half of all are faulty.
`auc`: how well the number behind the flag tells the two apart, whatever the threshold.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.measure import machine
from benchmarks.promises import markdown

FAULTS: dict[str, tuple[str, ...]] = {
    "loop": ("repetition",),
    "copy": ("copied",),
    "swapped": ("detached",),
    "half": ("uncovered", "too-short", "detached"),
}
"""The flags that count as finding each fault."""
ORIGINS, KEYS = ("translations", "references"), ("recall", "alarms", "precision")


def loop(text: str, draw: random.Random) -> str:
    """The text with a block of one to three of its words said four times more."""
    words = text.split()
    size = min(draw.randint(1, 3), len(words))
    at = draw.randint(0, len(words) - size)
    block = words[at : at + size]
    return " ".join(words[: at + size] + block * 4 + words[at + size :])


def swapped(texts: Sequence[str]) -> list[str]:
    """Each text changed for that of another sentence, which is another text, of about the same length."""
    order = sorted(range(len(texts)), key=lambda n: (len(texts[n].split()), texts[n]))
    found = list(texts)
    for place, number in enumerate(order):
        others = (order[(place + step) % len(order)] for step in range(1, len(order)))
        found[number] = next((texts[other] for other in others if texts[other] != texts[number]), "")
    return found


def half(text: str) -> str:
    """The first half of its words."""
    words = text.split()
    return " ".join(words[: max(1, len(words) // 2)])


def planted(sources: Sequence[str], good: Sequence[str], seed: int) -> dict[str, list[str]]:
    """For each fault faulty translations, one a sentence."""
    draw = random.Random(seed)
    return {
        "loop": [loop(text, draw) for text in good],
        "copy": list(sources),
        "swapped": swapped(good),
        "half": [half(text) for text in good],
    }


def auc(good: Sequence[float], bad: Sequence[float]) -> float:
    """The chance that a good one has the higher number (ties count half): area under the ROC curve."""
    ranked = sorted([(value, 0) for value in bad] + [(value, 1) for value in good])
    wins, seen, at = 0.0, 0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        tied = ranked[at:end]
        worse = sum(kind == 0 for _, kind in tied)
        wins += (len(tied) - worse) * (seen + worse / 2)
        seen, at = seen + worse, end
    return wins / (len(good) * len(bad))


def figures(good: Sequence[Any], bad: Sequence[Any], names: Sequence[str]) -> dict[str, float]:
    """Recall, alarms and precision of flags that are `names`, on as many faulty as good translations."""
    hits = sum(bool(set(one.flags) & set(names)) for one in bad) / len(bad)
    alarms = sum(bool(set(one.flags) & set(names)) for one in good) / len(good)
    precision = hits / (hits + alarms) if hits + alarms else 1.0
    found = {"recall": round(hits, 4), "alarms": round(alarms, 4), "precision": round(precision, 4)}
    if tuple(names) == ("detached",) and all(one.explained is not None for one in (*good, *bad)):
        found["auc"] = round(auc([one.explained for one in good], [one.explained for one in bad]), 4)
    return found


def measure(translator: Any, sources: Sequence[str], references: Sequence[str], seed: int) -> dict[str, Any]:
    """All figures, with the model's own translations and with the references as the good ones."""
    found: dict[str, Any] = {}
    own = translator.translate(list(sources))
    for origin, texts in zip(ORIGINS, (own, list(references))):
        rows = [(source, text) for source, text in zip(sources, texts) if len(text.split()) > 3]
        given, good = [source for source, _ in rows], [text for _, text in rows]
        fine = translator.judge(given, good)
        found[origin] = {"sentences": len(rows)} | {
            name: figures(fine, translator.judge(given, made), FAULTS[name])
            for name, made in planted(given, good, seed).items()
        }
    return found


def table(report: dict[str, Any], language: str) -> str:
    """The figures as a table of a page: of each fault recall and alarms, for both kinds of good translations."""
    heads = {
        "en": ("planted", "found", "alarms", "precision", "found beside references", "alarms", "precision"),
        "zh": ("植入的错误", "查出", "误报", "精确率", "以参考译文为准：查出", "误报", "精确率"),
    }
    names = {"loop": "循环", "copy": "照抄原文", "swapped": "别句的译文", "half": "只有前半"}
    body = []
    for fault in FAULTS:
        shown = [f"{100 * report[origin][fault][key]:.1f} %" for origin in ORIGINS for key in KEYS]
        body.append((fault if language == "en" else names[fault], *shown))
    return markdown(heads[language], body)


def main(arguments: list[str]) -> int:
    """Command line of this benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks flags", description=__doc__)
    parser.add_argument("model", help="model folder of a translator")
    parser.add_argument("--data", default="multi30k", help="named data set")
    parser.add_argument("--split", default="test")
    parser.add_argument("--sentences", type=int, default=None, help="only the first so many")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", default="-", help="write the figures here (-: stdout)")
    given = parser.parse_args(arguments)
    from regard.evaluation.task import task_of_pairs
    from regard.files import write_json
    from regard.text.named import find
    from regard.translator import load

    translator = load(given.model)
    source, target = translator.meta["source"], translator.meta["target"]
    task = task_of_pairs(find(given.data, given.split, source, target), source, target).first(given.sentences)
    references = [next(text for text in row if text is not None) for row in zip(*task.references)]
    found = measure(translator, list(task.sources or ()), references, given.seed)
    about = {
        "benchmark": "flags",
        "model": given.model,
        "data": given.data,
        "split": given.split,
        "seed": given.seed,
        "machine": machine(),
    }
    for origin, rows in found.items():
        for name, row in rows.items():
            if name != "sentences":
                print(f"{origin:<13} {name:<8} " + "  ".join(f"{k} {v:.3f}" for k, v in row.items()), file=sys.stderr)
    write_json(given.json, about | found)
    return 0
