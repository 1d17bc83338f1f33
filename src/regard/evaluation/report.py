"""Two systems side by side as one page that needs nothing else: differences marked, most different sentences first."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files

from regard.evaluation.compare import Comparing, Comparison, sentences_of, verdict
from regard.evaluation.scores import References, check_references
from regard.text.words import word_spans

SAME, RIGHT, WRONG = 0, 1, 2
"""What a piece of a translation is: the same in both systems; only in this one, and a reference has the word; or has not."""

Piece = tuple[str, int]
PLACE = "/*DATA*/"


def page(
    found: Comparison,
    references: References,
    first: Sequence[str],
    second: Sequence[str],
    sources: Sequence[str] | None = None,
    options: Comparing | None = None,
) -> str:
    """The page as HTML, in English and Chinese. All texts stand in one block of JSON, from which a script makes the page
    without ever reading them as HTML. Arguments as for `compare`, whose result is `found`."""
    scoring = (options or Comparing()).scoring
    sets = check_references(references, len(first), scoring.allow_empty)
    scores = {one.line: (one.first_chrf, one.second_chrf) for one in sentences_of(sets, first, second, sources, scoring)}
    rows = []
    for number, allowed in enumerate(zip(*sets), 1):
        kept = [text for text in allowed if text is not None]
        texts = first[number - 1], second[number - 1]
        row = {"line": number, "references": kept, "pieces": marked(*texts, kept), "chrf": scores.get(number)}
        rows.append(row if sources is None else row | {"source": sources[number - 1]})
    facts = found.json() | {"rows": rows, "verdicts": [verdict(test, ("A", "B")) for test in found.tests]}
    for name in ("better_first", "better_second"):
        del facts[name]
    data = json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return template().replace(PLACE, data.replace("\u2029", "\\u2029"))


def template() -> str:
    """The page without its data."""
    return (files("regard.evaluation") / "report.html").read_text(encoding="utf-8")


def marked(first: str, second: str, references: Sequence[str]) -> tuple[list[Piece], list[Piece]]:
    """Both texts in pieces that, joined, are the texts again; words that the other text does not have in this place are
    RIGHT where a reference has them as often, else WRONG."""
    spans = word_spans(first), word_spans(second)
    words = [[text[start:end] for start, end in its] for text, its in zip((first, second), spans)]
    same: tuple[set[int], set[int]] = (set(), set())
    for block in difflib.SequenceMatcher(None, *words, autojunk=False).get_matching_blocks():
        same[0].update(range(block.a, block.a + block.size))
        same[1].update(range(block.b, block.b + block.size))
    bags = [Counter(text[start:end] for start, end in word_spans(text)) for text in references]
    wanted: Counter[str] = Counter()
    for bag in bags:
        wanted |= bag
    one, two = (
        _pieces(text, its, kept, Counter(wanted)) for text, its, kept in zip((first, second), spans, same, strict=True)
    )
    return one, two


def _pieces(text: str, spans: Sequence[tuple[int, int]], same: set[int], left: Counter[str]) -> list[Piece]:
    for number in same:
        left[text[slice(*spans[number])]] -= 1
    pieces: list[Piece] = []
    place = 0
    for number, (start, end) in enumerate(spans):
        word, mark = text[start:end], SAME
        if number not in same:
            mark = RIGHT if left[word] > 0 else WRONG
            left[word] -= 1
        pieces += [(text[place:start], SAME), (word, mark)]
        place = end
    pieces.append((text[place:], SAME))
    joined: list[Piece] = []
    for piece, mark in pieces:
        if not piece:
            continue
        if joined and joined[-1][1] == mark:
            joined[-1] = joined[-1][0] + piece, mark
        else:
            joined.append((piece, mark))
    return joined
