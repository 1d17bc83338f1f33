"""What should make a reader look twice: names for it, and the one place where its thresholds stand.

Berard et al. 2019 and Guerreiro et al. 2023 for attention, Voita et al. 2021 for the likelihood with and without source.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from regard.text.words import has_letters, word_spans

FLAGS = {
    "empty": "the translation is empty, the source is not",
    "source-cut": "the source is longer than the model reads and lost its end",
    "unfinished": "the translation was cut by the length limit",
    "unknown-words": "the source has words that the vocabulary lacks",
    "repetition": "words are written over and over",
    "copied": "most of it stands in the source word for word",
    "too-long": "it is suspiciously long for its source",
    "too-short": "it is suspiciously short for its source",
    "uncovered": "source words were hardly looked at",
    "detached": "it depends little on its source",
    "prefix-missing": "it does not begin as it was told to",
    "required-missing": "a required phrase is not there",
    "forbidden-present": "a forbidden phrase is there",
    "glossary-missing": "a term of the glossary has none of its translations",
    "kept-missing": "a tag, variable or address was not carried through exactly once",
    "layout": "its translation would have changed the document around it, so the source stands there",
    "kept-guessed": "tags were placed without knowing which words belong together",
}
"""All names, and what each says of a translation."""
MARKS = ".,;:!?…。，；：！？"
"""Of punctuation at a word, when words are said again."""


@dataclass(frozen=True)
class Thresholds:
    """When a flag is raised.

    repeats: so often does a block of words stand in a row (one word alone: one more time), oftener than in the source.
    copied: share of the words that stand in the source in their order, of at least copied_words words with letters.
    longer, shorter: tokens of the translation for a token of the source, after `slack` tokens in its favour.
    looked: attention that a source word has from all words together; below it is uncovered. uncovered: share of the source
    words that may be.
    explained: share of the nats that a translation costs without its source, and not with it; below it is detached.
    unlooked: share of the source words that are uncovered when it is detached, whatever the likelihood says.
    """

    repeats: int = 3
    copied: float = 0.8
    copied_words: int = 4
    longer: float = 2.2
    shorter: float = 0.4
    slack: int = 6
    looked: float = 0.2
    uncovered: float = 0.15
    explained: float = 0.5
    unlooked: float = 0.5


THRESHOLDS = Thresholds()


def words_of(text: str) -> list[str]:
    """Its words."""
    return [text[start:end] for start, end in word_spans(text)]


def loops(words: Sequence[str]) -> int:
    """How often a block of words stands in a row at most, a single word counted one time less."""
    most = 1
    for size in range(1, len(words) // 2 + 1):
        run = 0
        for place in range(size, len(words)):
            run = run + 1 if words[place] == words[place - size] else 0
            most = max(most, run // size + (size > 1))
    return most


def copied(source: Sequence[str], words: Sequence[str]) -> float:
    """Share of the words that stand in the source in the same order."""
    blocks = difflib.SequenceMatcher(None, source, words, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / len(words) if words else 0.0


def text_flags(source: str, text: str, tokens: tuple[int, int], its: Thresholds = THRESHOLDS) -> list[str]:
    """Names of what can be seen in the texts. tokens: how many the source and the translation have."""
    if not text.strip():
        return ["empty"] if source.strip() else []
    found, sides = [], (words_of(source), words_of(text))
    said = [[word.strip(MARKS) or word for word in side] for side in sides]
    if loops(said[1]) >= max(its.repeats, loops(said[0]) + 1):
        found.append("repetition")
    if sum(map(has_letters, sides[1])) >= its.copied_words and copied(*sides) >= its.copied:
        found.append("copied")
    given, written = tokens
    if written - its.slack > its.longer * given:
        found.append("too-long")
    if written + its.slack < its.shorter * given:
        found.append("too-short")
    return found


def source_flags(
    coverage: Sequence[float], words: Sequence[str], explained: float | None, its: Thresholds = THRESHOLDS
) -> tuple[list[str], list[str]]:
    """Names of what attention and likelihood show, and the uncovered source words.

    coverage: what each source word had of attention, `words` these words; explained: see Thresholds, None if unknown.
    """
    counted = [(word, seen) for word, seen in zip(words, coverage) if has_letters(word)]
    missed = [word for word, seen in counted if seen < its.looked]
    share = len(missed) / len(counted) if counted else 0.0
    found = ["uncovered"] if share > its.uncovered else []
    if (explained is not None and explained < its.explained) or (share > its.unlooked and len(counted) > 2):
        found.append("detached")
    return found, missed
