"""Edit distance: how many words, phonemes or characters must change."""

from __future__ import annotations

from collections.abc import Sequence


def edits(first: Sequence[str], second: Sequence[str]) -> int:
    """Fewest insertions, deletions and replacements that turn one sequence of symbols into the other (Levenshtein 1966)."""
    if first == second:
        return 0
    row = list(range(len(second) + 1))
    for i, symbol in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (symbol != other))
    return row[-1]


def nearest(symbols: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[int, int]:
    """Edits to the nearest of several references, and that reference's length; the first of equally near ones counts."""
    return min(((edits(symbols, reference), len(reference)) for reference in references), key=lambda pair: pair[0])
