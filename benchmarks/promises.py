"""Measured figures beside what is promised of them, as a table of a page in both languages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Row = tuple[tuple[str, str], str, str]
"""What it is, in English and Chinese; what was measured; what is promised, empty for a figure that is only told."""
HEADS = {"en": ("figure", "measured", "promised"), "zh": ("量", "实测", "承诺")}


def table(rows: Iterable[Row], language: str) -> str:
    """The rows in Markdown; language: "en" or "zh"."""
    return markdown(HEADS[language], [(names[language == "zh"], *rest) for names, *rest in rows])


def markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, whose first column is text."""
    first, *rest = ("| " + " | ".join(cells) + " |" for cells in (head, *body))
    return "\n".join([first, "|---|" + "---:|" * (len(head) - 1), *rest]) + "\n"
