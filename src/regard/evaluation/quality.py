"""Fit the quality estimate of a model on a dev set, and show how far it can be relied on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regard.checkpoints.folders import OWN
from regard.checkpoints.tensors import read_json
from regard.decoding.quality import FEATURES, VERSION, estimate, features
from regard.errors import UserError
from regard.evaluation.task import Task
from regard.files import write_json

LEAST = 50
"""Fewest sentences to fit on."""
FOLDS = 5
_RIDGE = 1.0


@dataclass(frozen=True)
class Bin:
    """Sentences whose estimates lie together: mean estimate, mean chrF, and how many they are."""

    estimated: float
    real: float
    count: int


@dataclass(frozen=True)
class Calibration:
    """formula: what a model folder keeps. bins: a tenth of the sentences each, by estimate. correlation: Pearson's, of
    estimates with chrF; error: mean distance of the bins' estimates from their chrF. All of this is measured on sentences
    that the formula measured was not fitted to, in turns."""

    formula: dict[str, Any]
    bins: list[Bin]
    correlation: float
    error: float
    sentences: int = 0
    estimates: list[float] = field(default_factory=list, repr=False)
    real: list[float] = field(default_factory=list, repr=False)

    def lines(self) -> list[str]:
        """For the terminal."""
        told = f"correlation with chrF {self.correlation:.3f}, mean error of tenths {self.error:.1f}"
        rows = [f"{one.estimated:10.1f} {one.real:8.1f} {one.count:10,}" for one in self.bins]
        return [
            f"quality estimate: {self.sentences:,} sentences, {told} (each sentence held out once)",
            f"{'estimated':>10} {'chrF':>8} {'sentences':>10}",
            *rows,
        ]

    def json(self) -> dict[str, Any]:
        """One JSON-able object."""
        bins = [
            {"estimated": round(one.estimated, 2), "chrf": round(one.real, 2), "sentences": one.count} for one in self.bins
        ]
        return {"correlation": round(self.correlation, 4), "error": round(self.error, 2), "bins": bins}


def rising(values: Sequence[float]) -> list[tuple[float, int]]:
    """The rising steps nearest to values in squares: height and number of values of each (pool adjacent violators)."""
    steps: list[tuple[float, int]] = []
    for value in values:
        steps.append((float(value), 1))
        while len(steps) > 1 and steps[-2][0] >= steps[-1][0]:
            (one, few), (other, more) = steps[-2:]
            steps[-2:] = [((one * few + other * more) / (few + more), few + more)]
    return steps


def fit(table: Any, real: Any) -> dict[str, Any]:
    """A formula for rows of features [sentences, features] and their chrF: weights by ridge regression on features of mean 0
    and deviation 1, and the rising steps of chrF over the weighted sum, as knots in the middle of each."""
    means, scales = table.mean(0), table.std(0)
    scales = np.where(scales < 1e-9, 1.0, scales)
    scaled = (table - means) / scales
    gram = scaled.T @ scaled + _RIDGE * np.eye(scaled.shape[1])
    weights = np.linalg.solve(gram, scaled.T @ (real - real.mean()))
    sums = scaled @ weights
    order = np.argsort(sums, kind="stable")
    knots: list[list[float]] = []
    at = 0
    for height, count in rising(real[order].tolist()):
        middle = float(sums[order[at : at + count]].mean())
        if not knots or middle > knots[-1][0]:
            knots.append([middle, height])
        at += count
    return {
        "version": VERSION,
        "features": list(FEATURES),
        "weights": weights.tolist(),
        "means": means.tolist(),
        "scales": scales.tolist(),
        "knots": knots,
    }


def calibrate(translations: Sequence[Any], tokens: Sequence[int], real: Sequence[float]) -> Calibration:
    """The estimate fitted to translations made with `confidence`. tokens: of their sources. real: chrF of each, 0 to 100.
    UserError: fewer than 50."""
    if len(translations) < LEAST:
        raise UserError(f"a quality estimate needs {LEAST} sentences or more, these are {len(translations)}")
    lengths = [features(one, count)[FEATURES.index("length")] for one, count in zip(translations, tokens)]
    usual = float(np.median(lengths))
    table = np.array([features(one, count, usual) for one, count in zip(translations, tokens)])
    target = np.array(real, dtype=float)
    fold = np.arange(len(table)) % FOLDS
    held = np.zeros(len(table))
    for number in range(FOLDS):
        formula = fit(table[fold != number], target[fold != number])
        for place in np.flatnonzero(fold == number):
            held[place] = estimate(formula, table[place].tolist())
    bins = reliability(held.tolist(), target.tolist())
    flat = held.std() < 1e-9 or target.std() < 1e-9
    correlation = 0.0 if flat else float(np.corrcoef(held, target)[0, 1])
    error = sum(one.count * abs(one.estimated - one.real) for one in bins) / len(table)
    formula = fit(table, target) | {"length": usual, "sentences": len(table), "correlation": round(correlation, 4)}
    return Calibration(formula, bins, correlation, error, len(table), held.tolist(), target.tolist())


def reliability(estimates: Sequence[float], real: Sequence[float], count: int = 10) -> list[Bin]:
    """So many bins of equal size, by estimate."""
    order = sorted(range(len(estimates)), key=estimates.__getitem__)
    found = []
    for part in np.array_split(np.array(order), count):
        if len(part):
            mean = [float(np.mean([values[n] for n in part])) for values in (estimates, real)]
            found.append(Bin(mean[0], mean[1], len(part)))
    return found


def measured(translator: Any, task: Task, **options: Any) -> Calibration:
    """The estimate of a translator, fitted to a task's sources and references. options: of the search."""
    from sacrebleu.metrics.chrf import CHRF

    if task.sources is None:
        raise UserError("nothing to translate: the task has no sources")
    made = translator.translate(list(task.sources), details=True, **(options | {"confidence": True}))
    score = CHRF()
    references = [[text for text in row if text is not None] for row in zip(*task.references)]
    real = [score.sentence_score(one.text, refs).score for one, refs in zip(made, references)]
    tokens = [len(translator.frame(ids)[0][0]) for ids in translator.tokenizer.encode_batch(list(task.sources))]
    return calibrate(made, tokens, real)


def keep(folder: str | Path, found: Calibration) -> None:
    """Write the formula into a model folder's regard.json. UserError: the folder has none."""
    path = Path(folder) / OWN
    if not path.is_file():
        raise UserError(f"{folder}: has no {OWN} to keep the quality estimate in: save the model with regard first")
    write_json(path, read_json(path) | {"quality": found.formula})


def draw(found: Calibration, path: str | Path) -> None:
    """The reliability curve as a picture (its ending tells the kind, such as .svg or .png): estimated quality across, real
    chrF up, a dot a tenth of the sentences and a small one a sentence."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5, 4.5))
    axes = figure.add_subplot()
    axes.plot([0, 100], [0, 100], color="0.8", linewidth=1)
    axes.scatter(found.estimates, found.real, s=3, color="0.6", linewidths=0)
    axes.plot([one.estimated for one in found.bins], [one.real for one in found.bins], "o-", color="#1f5fa8")
    axes.set(xlim=(0, 100), ylim=(0, 100), xlabel="estimated quality", ylabel="chrF of the sentence", aspect="equal")
    axes.set_title(f"correlation {found.correlation:.2f}, {found.sentences:,} sentences held out in turns", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)
