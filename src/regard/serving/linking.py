"""Which words of a source a translation's words come from, by the attention of the decoder over the source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.inspection.aligning import chosen_head
from regard.inspection.tape import align, attentions, is_cross

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[^\w\s]")
"""A Chinese or Japanese character, a run of other letters and digits, or a mark."""

Span = tuple[int, int]
"""A half-open range of characters."""


@dataclass(frozen=True)
class Link:
    """A word of the translation and the word of the source that it looked at most: half-open ranges of characters, numbers
    of the words from 0, and the share of the attention that went there, from 0 to 1: of the head that was measured to align
    best (`regard inspect --measure`), else of the mean of the last layer's heads."""

    source: Span
    target: Span
    words: tuple[int, int]
    weight: float


@dataclass(frozen=True)
class Linked:
    """The words of both texts, and of each target word how much it looked at each source word: weights[target][source], no
    rows where the model does not look or there is nothing to look at."""

    source: list[Span]
    target: list[Span]
    weights: list[list[float]]


def words(text: str) -> list[Span]:
    """The half-open ranges of characters of a text's words and marks."""
    return [found.span() for found in _WORD.finditer(text)]


def links_words(loaded: Any) -> bool:
    """Whether a translator's decoder looks at the source, so that there is something to read off."""
    return any(is_cross(name) for name in attentions(loaded.model))


def linked(loaded: Any, translation: Any) -> Linked:
    """How much each word of a translation looked at each word of its source: the attention of one forced pass, summed over
    the pieces of a source word, meaned over those of a target word."""
    source, target = words(translation.source), words(translation.text)
    if not source or not target or translation.truncated or not links_words(loaded):
        return Linked(source, target, [])
    weights, source_spans, target_spans = _weights(loaded, translation)
    columns = [_word_of(span, source) for span in source_spans]
    rows = [_word_of(span, target) for span in target_spans]
    shares = [[0.0] * len(source) for _ in target]
    for number, its in enumerate(shares):
        own = [row for row, word in enumerate(rows) if word == number]
        for row in own:
            for column, word in enumerate(columns):
                if word is not None:
                    its[word] += weights[row][column] / len(own)
    return Linked(source, target, shares)


def links(loaded: Any, translation: Any) -> tuple[Link, ...]:
    """A link for each word of a translation, in order; none where the source is empty or lost its end.

    Attention is no proof of where a word comes from; this is its best-known reading, not more.
    """
    return strongest(linked(loaded, translation))


def strongest(its: Linked) -> tuple[Link, ...]:
    """Of each target word that looked at anything the link with the source word that it looked at most."""
    found = []
    for number, (span, shares) in enumerate(zip(its.target, its.weights)):
        best = max(range(len(shares)), key=shares.__getitem__)
        if any(shares):
            found.append(Link(its.source[best], span, (best, number), round(shares[best], 4)))
    return tuple(found)


def spans(tokenizer: Any, ids: Sequence[int], before: Sequence[int] = ()) -> list[Span]:
    """The characters that each token adds to the text that they give, after the ids `before`. A character of several tokens
    belongs to the last of them."""
    stream, place, found = tokenizer.stream(before), 0, []
    for number in ids:
        text = stream.push(number)
        found.append((place, place + len(text)))
        place += len(text)
    return found


def _weights(loaded: Any, translation: Any) -> tuple[list[list[float]], list[Span], list[Span]]:
    """Weights [T S] with the characters that each row and column stands for; a column of a mark stands for (0, 0)."""
    tokens = loaded.tokenizer.tokens(translation.source)
    (inputs, _), _ = loaded.frame(tokens.ids)
    before = len(loaded.tokenizer.template.before())
    read = [(0, 0)] * before + list(tokens.offsets)
    read += [(0, 0)] * (len(inputs) - len(read))
    start, _ = loaded.marks()
    head = chosen_head(loaded.model, loaded.meta)
    chosen = None if head is None else (head.attention, head.head)
    weights = align(loaded.model, inputs, [start, *translation.ids[:-1]], chosen=chosen)
    return weights.tolist(), read, spans(loaded.tokenizers.target, translation.ids)


def _word_of(span: Span, among: Sequence[Span]) -> int | None:
    """The word that shares most characters with a span; None if none does."""
    shared = [(min(span[1], end) - max(span[0], start), -number) for number, (start, end) in enumerate(among)]
    most, number = max(shared)
    return -number if most > 0 else None
