"""A look at a model while it trains, and the scores of the finished one: loss by forced decoding, text by real decoding."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from regard.architecture import Model
from regard.batches import ordered
from regard.evaluation.likelihood import likelihood
from regard.evaluation.quality import Calibration, measured
from regard.evaluation.scores import References, Score, group_references, score
from regard.evaluation.task import Task
from regard.text.corpus import Pair
from regard.training import ranks
from regard.training.prepare import Prepared, held
from regard.training.recipe import Recipe
from regard.translator import Translator

TOKENS = 4096
"""Budget of a validation batch."""
FITTED = 2000
"""So many different sentences at most is an estimate of quality fitted to."""


@dataclass
class Look:
    """loss: nats per target token (or text), without smoothing. token_accuracy: None where no tokens are predicted. scores:
    by metric. figures: what else was measured, by name. samples: (source, translation, reference)."""

    loss: float
    token_accuracy: float | None
    scores: dict[str, Score] = field(default_factory=dict)
    samples: list[tuple[str, str, str]] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def entry(self, step: int) -> dict[str, Any]:
        """The figures as an entry of the log."""
        scores = {f"valid_{name}": round(found.value, 3) for name, found in self.scores.items()}
        figures = {f"valid_{name}": value for name, value in self.figures.items()}
        accuracy = {} if self.token_accuracy is None else {"valid_token_accuracy": self.token_accuracy}
        return {"step": step, "valid_loss": self.loss, **accuracy, **scores, **figures}

    def line(self, step: int) -> str:
        """The figures as a line to read."""
        scores = "  ".join(f"{name} {found.value:.2f}" for name, found in self.scores.items())
        scores += "  ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in self.figures.items())
        accuracy = "" if self.token_accuracy is None else f", token accuracy {self.token_accuracy:.1%}"
        return f"step {step}: validation loss {self.loss:.3f}{accuracy}  {scores}"

    def value(self, monitor: str) -> float:
        """What makes one look better than another; larger is better."""
        if monitor == "loss":
            return -self.loss
        return self.figures[monitor] if monitor in self.figures else self.scores[monitor].value


@dataclass(frozen=True)
class Verdict:
    """How the finished model did on the test data. scores: by metric its value and signature. texts: what it answered, an
    answer a line; None if there is nothing to write down."""

    scores: dict[str, dict[str, Any]]
    texts: list[str] | None = None


def look(model: Model, recipe: Recipe, prepared: Prepared) -> Look:
    """Judge a model, in evaluation mode, on the validation pairs."""
    how = recipe.evaluation
    limit = replace(held(recipe, model), action="skip")
    batches = ordered(prepared.valid, TOKENS, objective=prepared.watched, limits=limit)
    found = likelihood(model, batches, rank=ranks.rank(), world=ranks.world())
    seen = Look(found.loss, found.token_accuracy)
    if how.during:
        pairs = spread(prepared.valid_pairs, how.max_sentences)
        texts, seen.scores = judge(model, recipe, prepared, pairs)
        chosen = range(0, len(pairs), max(len(pairs) // max(how.samples, 1), 1))[: how.samples]
        seen.samples = [(pairs[i].source, texts[i], pairs[i].target) for i in chosen]
    return seen


def spread(pairs: list[Pair], count: int) -> list[Pair]:
    """The pairs of at most `count` different sources, taken evenly from first to last: corpora are often sorted."""
    sources = list(dict.fromkeys(pair.source for pair in pairs))
    count = min(count, len(sources))
    chosen = {sources[number * len(sources) // count] for number in range(count)}
    return [pair for pair in pairs if pair.source in chosen]


def judge(
    model: Model, recipe: Recipe, prepared: Prepared, pairs: list[Pair], greedy: bool = True
) -> tuple[list[str], dict[str, Score]]:
    """Translations of pairs and their scores; greedy while training, by the recipe's search at the end, then with the
    sentences before each if the recipe has data.context."""
    how, count = recipe.evaluation, 0 if greedy else recipe.data.context
    sources: list[str] = [pair.source for pair in pairs]
    references: References = [[pair.target for pair in pairs]]
    if how.group and not count:
        sources, references = group_references(pairs)
    translator = translator_of(model, recipe, prepared)
    options = {"num_beams": 1 if greedy else None, "context": count}
    if count:  # in order, so not shared out among ranks
        texts = translator.translate(sources, **options)
    else:
        texts = ranks.spread(sources, lambda some: translator.translate(some, **options))
    said = [texts, *references]
    if count:  # empty pairs part documents, and are not scored
        said = [[line for line, pair in zip(lines, pairs) if pair.target.strip()] for lines in said]
    scores = score(said[0], said[1:], how.metrics, language=recipe.data.target, tokenize=how.tokenize)
    if count:
        return texts, scores
    found = dict(zip(sources, texts, strict=True))
    return [found[pair.source] for pair in pairs], scores


def translator_of(model: Model, recipe: Recipe, prepared: Prepared) -> Translator:
    """The model as its folder will be opened."""
    meta: dict[str, Any] = {"search": recipe.search.model_dump(exclude_defaults=True)} | prepared.facts
    if prepared.start is not None:
        meta["ids"] = prepared.start.ids
    return Translator(model, prepared.tokenizers, recipe.search_options(), meta)


def calibrated(model: Model, recipe: Recipe, prepared: Prepared) -> Calibration:
    """The estimate of quality, fitted to validation pairs that are translated by the recipe's search."""
    pairs = spread(prepared.valid_pairs, FITTED)
    task = Task([[pair.target for pair in pairs]], [pair.source for pair in pairs], recipe.data.source, recipe.data.target)
    return measured(translator_of(model, recipe, prepared), task)
