"""Which words of a source a translation's words come from, by the attention of the decoder over the source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from regard.inspection.tape import align, attentions, is_cross

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+|[^\w\s]")
"""A Chinese or Japanese character, a run of other letters and digits, or a mark."""


@dataclass(frozen=True)
class Link:
    """A word of the translation and the word of the source that it looked at most: half-open ranges of characters, numbers
    of the words from 0, and the share of the attention that went there, from 0 to 1 (the mean of the last layer's heads)."""

    source: tuple[int, int]
    target: tuple[int, int]
    words: tuple[int, int]
    weight: float


def words(text: str) -> list[tuple[int, int]]:
    """The half-open ranges of characters of a text's words and marks."""
    return [found.span() for found in _WORD.finditer(text)]


def links_words(loaded: Any) -> bool:
    """Whether a translator's decoder looks at the source, so that there is something to read off."""
    return any(is_cross(name) for name in attentions(loaded.model))


def links(loaded: Any, translation: Any) -> tuple[Link, ...]:
    """A link for each word of a translation, in order; none where the source is empty or lost its end.

    The attention of one forced pass, summed over the pieces of a source word, meaned over those of a target word. Attention
    is no proof of where a word comes from; this is its best-known reading, not more.
    """
    source, target = words(translation.source), words(translation.text)
    if not source or not target or translation.truncated or not links_words(loaded):
        return ()
    weights, source_spans, target_spans = _weights(loaded, translation)
    columns = [_word_of(span, source) for span in source_spans]
    rows = [_word_of(span, target) for span in target_spans]
    found = []
    for number, span in enumerate(target):
        shares = [0.0] * len(source)
        own = [row for row, word in enumerate(rows) if word == number]
        for row in own:
            for column, word in enumerate(columns):
                if word is not None:
                    shares[word] += weights[row][column] / len(own)
        best = max(range(len(source)), key=shares.__getitem__)
        if own:
            found.append(Link(source[best], span, (best, number), round(shares[best], 4)))
    return tuple(found)


def _weights(loaded: Any, translation: Any) -> tuple[list[list[float]], list[tuple[int, int]], list[tuple[int, int]]]:
    """Weights [T S] with the characters that each row and column stands for; a column of a mark stands for (0, 0)."""
    tokens = loaded.tokenizer.tokens(translation.source)
    (inputs, _), _ = loaded.frame(tokens.ids)
    before = len(loaded.tokenizer.template.before())
    spans = [(0, 0)] * before + list(tokens.offsets)
    spans += [(0, 0)] * (len(inputs) - len(spans))
    start, _ = loaded.marks()
    weights = align(loaded.model, inputs, [start, *translation.ids[:-1]])
    stream, place, written = loaded.tokenizers.target.stream(), 0, []
    for number in translation.ids:
        text = stream.push(number)
        written.append((place, place + len(text)))
        place += len(text)
    return weights.tolist(), spans, written


def _word_of(span: tuple[int, int], among: list[tuple[int, int]]) -> int | None:
    """The word that shares most characters with a span; None if none does."""
    shared = [(min(span[1], end) - max(span[0], start), -number) for number, (start, end) in enumerate(among)]
    most, number = max(shared)
    return -number if most > 0 else None
