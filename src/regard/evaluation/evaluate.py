"""Translate a task with a model, keep the translations, score them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.evaluation.files import check_writable, one_line, write_lines
from regard.evaluation.scores import METRICS, Score, Scoring, as_json, check_metrics, score
from regard.evaluation.scores import lines as score_lines
from regard.evaluation.task import Task

log = logging.getLogger("regard.evaluation")

OF_MODEL = ("perplexity", "loss", "token_accuracy")
"""Metrics that ask the model itself about the first reference."""


@dataclass(frozen=True)
class Evaluating:
    """How to evaluate. search: options of the search that differ from the model's own. output: file for the translations,
    written before they are scored. finish: what is done to a translation before it is written and scored, such as a
    Moses. batch_tokens: tokens of a batch while translating; None: the translator's own."""

    metrics: Sequence[str] = ("bleu", "chrf")
    scoring: Scoring = Scoring()
    search: dict[str, Any] = field(default_factory=dict)
    output: str | Path | None = None
    finish: Callable[[str], str] | None = None
    batch_tokens: int | None = None


@dataclass(frozen=True)
class Evaluation:
    """translations: one line a sentence, as scored. scores: by metric. references: most references of a sentence.
    seconds: that translating took."""

    translations: list[str]
    scores: dict[str, Score]
    references: int
    seconds: float = 0.0

    def lines(self) -> list[str]:
        """For the terminal."""
        refs = "" if self.references == 1 else f", up to {self.references} references each"
        speed = f", translated in {self.seconds:.1f} s" if self.seconds else ""
        return [f"{len(self.translations):,} sentences{refs}{speed}", *score_lines(self.scores)]

    def json(self) -> dict[str, Any]:
        """One JSON-able object."""
        return {
            "sentences": len(self.translations),
            "references": self.references,
            "seconds": round(self.seconds, 3),
            "scores": as_json(self.scores),
        }


def evaluate(translator: Any, task: Task, options: Evaluating | None = None) -> Evaluation:
    """Translate the sources of a task with a Translator and score what comes out, detokenised, against its references.

    The metrics and their options are checked first, so that a mistake costs no translating.
    """
    options = options or Evaluating()
    names = check_metrics(options.metrics, METRICS + OF_MODEL)
    if task.sources is None:
        raise UserError("nothing to translate: the task has no sources")
    _try(names, task, options.scoring)
    check_writable(options.output)
    search = dict(options.search)
    if options.batch_tokens is not None:
        search["batch_tokens"] = options.batch_tokens
    began = time.perf_counter()
    texts = [one_line(text) for text in translator.translate(list(task.sources), **search)]
    seconds = time.perf_counter() - began
    texts = texts if options.finish is None else [options.finish(text) for text in texts]
    if options.output is not None:
        write_lines(options.output, texts)
    found = _text_scores(names, texts, task, options.scoring)
    if any(name in OF_MODEL for name in names):
        found |= _model_scores(names, translator, task)
    return Evaluation(texts, {name: found[name] for name in names}, len(task.references), seconds)


def evaluate_lines(translations: Sequence[str], task: Task, options: Evaluating | None = None) -> Evaluation:
    """Score translations that some other system made, without a model."""
    options = options or Evaluating()
    asked = [name for name in options.metrics if name in OF_MODEL]
    if asked:
        raise UserError(f"the metric {asked[0]!r} needs a model, not only its translations")
    names = check_metrics(options.metrics)
    texts = list(translations) if options.finish is None else [options.finish(text) for text in translations]
    return Evaluation(texts, _text_scores(names, texts, task, options.scoring), len(task.references))


def _try(names: list[str], task: Task, scoring: Scoring) -> None:
    """Score the first reference against itself: what is missing for a metric shows before translating."""
    best = [next(r for r in row if r is not None) for row in zip(*task.first(1).references)]
    _text_scores(names, best, task.first(1), scoring)


def _text_scores(names: list[str], texts: list[str], task: Task, scoring: Scoring) -> dict[str, Score]:
    wanted = [name for name in names if name not in OF_MODEL]
    language = scoring.language or task.target_language
    return score(texts, task.references, wanted, language, options=scoring) if wanted else {}


def _model_scores(names: list[str], translator: Any, task: Task) -> dict[str, Score]:
    from regard.evaluation.likelihood import likelihood, pair_batches

    targets = [next(r for r in row if r is not None) for row in zip(*task.references)]
    assert task.sources is not None
    room = translator.model.decoder.limit
    lengths = [len(ids) + 1 for ids in translator.tokenizers.target.encode_batch(targets)]
    pairs = [
        (source, target)
        for source, target, length in zip(task.sources, targets, lengths)
        if translator.fits(source) and (room is None or length <= room)
    ]
    if not pairs:
        raise UserError("no pair is short enough for the model to read whole: perplexity, loss and accuracy are of nothing")
    if len(pairs) < len(targets):
        log.warning(
            "%d of %d pairs are longer than the model reads; perplexity, loss and accuracy leave them out",
            len(targets) - len(pairs),
            len(targets),
        )
    found = likelihood(translator.model, pair_batches(translator.tokenizers, pairs))
    values = {"perplexity": found.perplexity, "loss": found.loss, "token_accuracy": 100 * found.token_accuracy}
    signature = "ref:first|unit:model tokens|smoothing:none"
    return {name: Score(values[name], signature, {"tokens": found.tokens}) for name in names if name in values}
