"""Where two systems differ: by words that were never learned from, and by how frequent a word is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.evaluation.scores import SACREBLEU, Scoring

EDGES = (0, 1, 4, 9, 99, 999)
"""Last frequency of each bucket of words."""


@dataclass(frozen=True)
class WordBucket:
    """Words of a range of frequencies. words: how many the references have. first, second: F1 (0 to 100) of each system: a
    word counts as found as often as it stands in both the translation and a reference (as in compare-mt, Neubig et al.
    2019)."""

    frequency: str
    words: int
    first: float
    second: float


def words_of(texts: Iterable[str | None], scoring: Scoring) -> list[list[str]]:
    """The words of each text as BLEU's tokenizer for its language has them."""
    metric: Any = SACREBLEU["bleu"](scoring)
    return [metric._preprocess_segment(text or "").split() for text in texts]


def unknown_words(sources: Sequence[str], known: Collection[str], language: str | None) -> list[int]:
    """How many words of each source are not among those known."""
    return [sum(word not in known for word in words) for words in words_of(sources, Scoring(language))]


def by_frequency(
    sets: Sequence[Sequence[str | None]],
    first: Sequence[str],
    second: Sequence[str],
    counts: Mapping[str, int] | None,
    scoring: Scoring,
) -> list[WordBucket]:
    """F1 of the words of each range of frequencies that has any. Of several references that one counts which shares most
    words with a translation."""
    references = [[words for words in words_of(row, scoring) if words] or [[]] for row in zip(*sets)]
    if counts is None:
        counts = Counter(word for row in references for word in row[0])
    found = [_hits(words_of(texts, scoring), references, counts) for texts in (first, second)]
    wanted = Counter(_bucket(counts.get(word, 0)) for row in references for word in row[0])
    labels = [_label(number) for number in range(len(EDGES) + 1)]
    return [
        WordBucket(label, wanted[number], *(_f1(*side[number]) for side in found))
        for number, label in enumerate(labels)
        if wanted[number]
    ]


def _hits(texts: list[list[str]], references: list[list[list[str]]], counts: Mapping[str, int]) -> list[list[int]]:
    """For each bucket: words found, words written, words wanted."""
    table = [[0, 0, 0] for _ in range(len(EDGES) + 1)]
    for words, allowed in zip(texts, references):
        written = Counter(words)
        wanted = max((Counter(one) for one in allowed), key=lambda one: (written & one).total())
        for column, bag in enumerate((written & wanted, written, wanted)):
            for word, count in bag.items():
                table[_bucket(counts.get(word, 0))][column] += count
    return table


def _f1(both: int, written: int, wanted: int) -> float:
    return 100 * 2 * both / (written + wanted) if written + wanted else 0.0


def _bucket(count: int) -> int:
    return sum(count > edge for edge in EDGES)


def _label(number: int) -> str:
    if number == len(EDGES):
        return f"over {EDGES[-1]}"
    low, high = (EDGES[number - 1] + 1 if number else 0), EDGES[number]
    return str(high) if low == high else f"{low}-{high}"
