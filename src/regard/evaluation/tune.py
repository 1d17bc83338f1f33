"""The length penalty that suits a model best, found by translating a development set with each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import UserError
from regard.evaluation.scores import LOWER_IS_BETTER, SACREBLEU, Scoring, score
from regard.evaluation.task import Task

PENALTIES = (0.0, 0.4, 0.6, 0.8, 1.0, 1.2, 1.6)


@dataclass(frozen=True)
class Trial:
    """A length penalty, what the metric says of it, and tokens written for a token of the references."""

    length_penalty: float
    score: float
    ratio: float


def tune_length(
    translator: Any,
    task: Task,
    metric: str = "bleu",
    penalties: Sequence[float] = PENALTIES,
    num_beams: int | None = None,
    tell: Callable[[Trial], None] | None = None,
) -> list[Trial]:
    """A Trial for each penalty, in their order. num_beams: None for the translator's own. UserError: a greedy search, which
    no penalty changes, an unknown metric, or no sources."""
    if metric not in SACREBLEU:
        raise UserError(f"unknown metric {metric!r}: choose among {', '.join(SACREBLEU)}")
    if task.sources is None:
        raise UserError("nothing to translate: the task has no sources")
    if (num_beams or translator.search.num_beams) < 2:
        raise UserError("this model searches greedily, and no length penalty changes that: give --num-beams 2 or more")
    target = translator.tokenizers.target
    wanted = sum(map(len, target.encode_batch([next(r for r in row if r is not None) for row in zip(*task.references)])))
    found = []
    for penalty in penalties:
        answers = translator.translate(list(task.sources), length_penalty=penalty, num_beams=num_beams)
        value = score(answers, task.references, [metric], task.target_language, options=Scoring())[metric].value
        found.append(Trial(penalty, value, sum(map(len, target.encode_batch(answers))) / max(wanted, 1)))
        if tell is not None:
            tell(found[-1])
    return found


def best_of_trials(trials: Sequence[Trial], metric: str) -> Trial:
    """The best one; among equals that nearest to 1, the usual penalty."""
    sign = 1 if metric in LOWER_IS_BETTER else -1
    return min(trials, key=lambda one: (sign * one.score, abs(one.length_penalty - 1)))
