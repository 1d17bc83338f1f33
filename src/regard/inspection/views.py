"""Pictures of attention for a terminal: shades that need no colour, or digits where only ASCII is sure to be shown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size

SHADES = ((0.75, "█"), (0.5, "▓"), (0.25, "▒"), (0.08, "░"), (0.0, " "))
"""The least weight of each shade."""


def shows_shades() -> bool:
    """Whether the terminal may be given more than ASCII: not where LC_ALL or LANG say C or POSIX."""
    told = os.environ.get("LC_ALL") or os.environ.get("LANG") or ""
    return told not in ("C", "POSIX")


def _cell(weight: float, width: int, shades: bool) -> str:
    if shades:
        return next(shade for least, shade in SHADES if weight >= least) * width
    digit = min(9, int(weight * 10))
    return (str(digit) if digit else ".").center(width)


def _label(token: str) -> str:
    """The token in one line of visible characters; spaces at its ends say nothing in a table."""
    return "".join(c if c.isprintable() else "·" for c in token.strip()) or "·"


def _bands(widths: Sequence[int], room: int) -> list[range]:
    """Columns that fit side by side into `room` cells, each with a gap before it; always one at least."""
    bands, start, used = [], 0, 0
    for column, width in enumerate(widths):
        if column > start and used + width + 1 > room:
            bands.append(range(start, column))
            start, used = column, 0
        used += width + 1
    return [*bands, range(start, len(widths))]


def alignment_text(
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    weights: Any,
    width: int = 80,
    shades: bool | None = None,
) -> str:
    """A table of weights [T S], one row a target token, one column a source token, as plain text.

    width: cells of the terminal; what does not fit goes into further tables below. Wide characters (Chinese) count as two
    cells. shades: blocks ░▒▓█ from light to full, or digits (3 for 0.3 to 0.4, a dot under 0.1); None: by the locale.
    ValueError: the shape is not [T S].
    """
    rows = weights.tolist() if hasattr(weights, "tolist") else [list(row) for row in weights]
    if len(rows) != len(target_tokens) or any(len(row) != len(source_tokens) for row in rows):
        raise ValueError(f"weights must be [{len(target_tokens)} {len(source_tokens)}], one row for each target token")
    shades = shows_shades() if shades is None else shades
    sources, targets = [_label(token) for token in source_tokens], [_label(token) for token in target_tokens]
    widths = [max(2, cell_len(token)) for token in sources]
    margin = max((cell_len(token) for token in targets), default=0)
    tables = []
    for band in _bands(widths, max(1, width - margin)):
        lines = [" " * margin + "".join(" " + set_cell_size(sources[i], widths[i]) for i in band)]
        for token, row in zip(targets, rows):
            cells = "".join(" " + _cell(row[i], widths[i], shades) for i in band)
            lines.append(" " * (margin - cell_len(token)) + token + cells)
        tables.append("\n".join(line.rstrip() for line in lines))
    return "\n\n".join(tables)
