"""Measured figures beside what is promised of them, as a table of a page in both languages."""

from __future__ import annotations

from collections.abc import Iterable

Row = tuple[tuple[str, str], str, str]
"""What it is, in English and Chinese; what was measured; what is promised, empty for a figure that is only told."""
HEADS = {"en": ("figure", "measured", "promised"), "zh": ("量", "实测", "承诺")}


def table(rows: Iterable[Row], language: str) -> str:
    """The rows in Markdown; language: "en" or "zh"."""
    lines = [HEADS[language], *((names[language == "zh"], *rest) for names, *rest in rows)]
    head, *body = ("| " + " | ".join(cells) + " |" for cells in lines)
    return "\n".join([head, "|---|---:|---:|", *body]) + "\n"
