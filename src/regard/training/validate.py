"""A look at a model while it trains, and the scores of the finished one: loss by forced decoding, text by real decoding."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from regard.architecture import Model
from regard.batches import Limits, ordered
from regard.evaluation.likelihood import likelihood
from regard.evaluation.scores import References, Score, group_references, score
from regard.text.corpus import Pair
from regard.training.prepare import Prepared
from regard.training.recipe import Recipe
from regard.translator import Translator

TOKENS = 4096
"""Budget of a validation batch."""


@dataclass
class Look:
    """loss: nats per target token, without smoothing. scores: by metric. samples: (source, translation, reference)."""

    loss: float
    token_accuracy: float
    scores: dict[str, Score] = field(default_factory=dict)
    samples: list[tuple[str, str, str]] = field(default_factory=list)

    def entry(self, step: int) -> dict[str, Any]:
        """The figures as an entry of the log."""
        scores = {f"valid_{name}": round(found.value, 3) for name, found in self.scores.items()}
        return {"step": step, "valid_loss": self.loss, "valid_token_accuracy": self.token_accuracy, **scores}

    def line(self, step: int) -> str:
        """The figures as a line to read."""
        scores = "  ".join(f"{name} {found.value:.2f}" for name, found in self.scores.items())
        return f"step {step}: validation loss {self.loss:.3f}, token accuracy {self.token_accuracy:.1%}  {scores}"

    def value(self, monitor: str) -> float:
        """What makes one look better than another; larger is better."""
        return -self.loss if monitor == "loss" else self.scores[monitor].value


def look(model: Model, recipe: Recipe, prepared: Prepared) -> Look:
    """Judge a model, in evaluation mode, on the validation pairs."""
    how = recipe.evaluation
    limit = Limits(recipe.data.max_length, recipe.data.max_length, "skip")
    found = likelihood(model, ordered(prepared.valid, TOKENS, limits=limit))
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
    """Translations of pairs and their scores; greedy while training, by the recipe's search at the end."""
    how = recipe.evaluation
    sources: list[str] = [pair.source for pair in pairs]
    references: References = [[pair.target for pair in pairs]]
    if how.group:
        sources, references = group_references(pairs)
    translator = Translator(model, prepared.tokenizers, recipe.search_options())
    texts = translator.translate(sources, num_beams=1 if greedy else None)
    scores = score(texts, references, how.metrics, language=recipe.data.target, tokenize=how.tokenize)
    found = dict(zip(sources, texts, strict=True))
    return [found[pair.source] for pair in pairs], scores
