"""Words as readers count them: what stands between spaces, and each character of a script that puts none."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise

from regard.text.surfaces import UNSPACED, kind

Span = tuple[int, int]


def word_spans(text: str) -> list[Span]:
    """Half-open ranges of characters, one a word."""
    spans: list[Span] = []
    start: int | None = None
    for place, character in enumerate(text):
        alone = kind(character) == UNSPACED
        if start is not None and (alone or character.isspace()):
            spans.append((start, place))
            start = None
        if alone:
            spans.append((place, place + 1))
        elif start is None and not character.isspace():
            start = place
    return spans if start is None else [*spans, (start, len(text))]


def owners(spans: Sequence[Span], offsets: Sequence[Span]) -> list[int]:
    """The word that each token belongs to, by their characters; -1 for a token of spaces alone or of nothing."""
    starts = [start for start, _ in spans]
    found = []
    for start, end in offsets:
        word = bisect_right(starts, max(end - 1, start)) - 1
        found.append(word if word >= 0 and start < end and spans[word][1] > start else -1)
    return found


def turned(text: str) -> str:
    """The words and what stands between them in the opposite order; done twice, the text itself."""
    places = [0, *(place for span in word_spans(text) for place in span), len(text)]
    return "".join(text[start:end] for start, end in reversed(list(pairwise(places))))


def has_letters(word: str) -> bool:
    """Whether a word is more than marks and digits."""
    return any(character.isalpha() for character in word)
