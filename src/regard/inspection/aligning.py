"""Which source word a word was written from: weights by words, Pharaoh's format, and the head that shows it best."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints.folders import OWN
from regard.checkpoints.tensors import read_json
from regard.decoding.alignment import by_words, links
from regard.errors import UserError
from regard.files import write_json
from regard.inspection.attribution import Question, occlusion
from regard.inspection.reading import Reading, read
from regard.inspection.tape import attentions, is_cross, record
from regard.inspection.values import Side

KEY = "alignment_head"
"""Where a model folder's regard.json keeps the head."""
MATTERS = 0.1
"""A source word matters to a token if without it the token's log-probability falls by so many nats."""


@dataclass(frozen=True)
class Head:
    """An attention from outputs to inputs, and one of its heads, None for their mean. agreement: the share of tokens whose
    most attended source word is the one that matters most to them (`occlusion`); baseline: that of the mean of the last
    layer's heads; tokens: how many it was measured on; all of them from texts by which the head was not chosen."""

    attention: str
    head: int | None
    agreement: float | None = None
    baseline: float | None = None
    tokens: int = 0


def chosen_head(model: Any, meta: Any) -> Head | None:
    """The head that was measured and stored with the model; else the mean of the last layer's; None: there is none."""
    names = [name for name in attentions(model) if is_cross(name)]
    told = meta.get(KEY) or {}
    if told.get("attention") in names:
        return Head(told["attention"], told.get("head"), told.get("agreement"), told.get("baseline"), told["tokens"])
    return Head(names[-1], None) if names else None


def words_of(side: Side) -> list[int]:
    """The word of each token, -1 where it has none."""
    return [token.word for token in side.tokens]


def word_weights(weights: Tensor, target: Side, source: Side) -> Tensor:
    """Float[words, source words] of weights Float[T S]: to a source word the sum of its tokens', from a word the mean of its
    tokens' (Clark et al. 2019), so that rows keep their sum."""
    shape = len(target.words), len(source.words)
    return by_words(weights.float().cpu(), words_of(source), words_of(target), shape)


def word_links(weights: Tensor, target: Side, source: Side) -> list[tuple[int, int]]:
    """Pairs (source word, word), from 0."""
    return links(word_weights(weights, target, source))


def pharaoh(pairs: Iterable[tuple[int, int]]) -> str:
    """Pairs as Pharaoh's format has them: 0-0 1-2."""
    return " ".join(f"{source}-{target}" for source, target in pairs)


def measure(translator: Any, texts: Iterable[str]) -> Head:
    """The head of a translator's cross-attention whose strongest source word is most often the one that matters most.

    Each text is translated greedily; each of its words is taken away in turn, and the word that a token's log-probability
    falls most without is the one it was written from. The head is chosen on every other text and measured on the rest;
    where it is no better there than the mean of the last layer, that mean is kept.
    UserError: the model does not look at its source, or no text has a word that matters.
    """
    names = [name for name in attentions(translator.model) if is_cross(name)]
    if not names:
        raise UserError("this model does not look at its source: it has no head that could align")
    found: list[dict[tuple[str, int | None], Tensor]] = []
    for text in texts:
        if text.strip():
            found.append(_agreements(translator, read(translator, text, num_beams=1), names))
    chosen, rest = _totals(found[::2]), _totals(found[1::2] or found)
    if not chosen or not rest:
        raise UserError("no text has a word without which the translation changes: give more or longer texts")
    usual = (names[-1], None)
    best = max(chosen, key=lambda key: chosen[key][0])
    best = best if rest[best][0] > rest[usual][0] else usual
    return Head(*best, rest[best][0], rest[usual][0], rest[best][1])


def _agreements(translator: Any, reading: Reading, names: list[str]) -> dict[tuple[str, int | None], Tensor]:
    """For each head, and each layer's mean, whether it agrees at each token: Bool[n]."""
    model, source, target = translator.model, reading.sides["source"], reading.sides["target"]
    questions = [
        Question(place, number)
        for place, (number, token) in enumerate(zip(reading.said, target.tokens))
        if number is not None and token.word >= 0
    ]
    members = [[n for n, word in enumerate(words_of(source)) if word == one] for one in range(len(source.words))]
    if not questions or not members:
        return {}
    falls = occlusion(model, reading, questions, {"source": members}).scores["source"]
    matters = falls.amax(1) > MATTERS
    wanted = falls.argmax(1)[matters]
    places = [question.place for question, real in zip(questions, matters.tolist()) if real]
    if not places:
        return {}
    with torch.no_grad(), record(model, names) as tape:
        reading.answer(model)
    columns = torch.zeros(len(source.tokens), len(members))
    for word, tokens in enumerate(members):
        columns[tokens, word] = 1.0
    found: dict[tuple[str, int | None], Tensor] = {}
    for name in names:
        weights = tape.weights(name, queries=tape.answered(name, len(reading.said)))[0].float().cpu()[:, places] @ columns
        for head in range(weights.shape[0]):
            found[name, head] = weights[head].argmax(1) == wanted.cpu()
        found[name, None] = weights.mean(0).argmax(1) == wanted.cpu()
    return found


def _totals(found: list[dict[tuple[str, int | None], Tensor]]) -> dict[tuple[str, int | None], tuple[float, int]]:
    """For each head the share of tokens at which it agrees, and how many tokens there are."""
    texts = [each for each in found if each]
    if not texts:
        return {}
    joined = {key: torch.cat([each[key] for each in texts]) for key in texts[0]}
    return {key: (float(one.float().mean()), len(one)) for key, one in joined.items()}


def store(folder: Path, head: Head) -> None:
    """Write the head into a model folder's regard.json. UserError: the folder has none."""
    path = folder / OWN
    if not path.is_file():
        raise UserError(f"{folder}: has no {OWN} to keep the head in; `regard convert` makes a folder that has")
    write_json(path, read_json(path) | {KEY: asdict(head)})
