"""Plain text: every line is a paragraph."""

from __future__ import annotations

import re

from regard.text.formats.document import Document, Piece, segment

_LINE = re.compile(r"[^\n\r]+")


def read(text: str) -> Document:
    """The lines of a text that have letters, without the white space around them."""
    found = []
    for match in _LINE.finditer(text):
        line = match[0]
        start = match.start() + len(line) - len(line.lstrip())
        core = line.strip()
        found.append(segment([Piece("text", start, start + len(core), core)]) if core else None)
    return Document(text, [one for one in found if one is not None], read)
