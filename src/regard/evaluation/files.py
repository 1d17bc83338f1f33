"""Files of translations: as many lines as texts, whole or not at all, always UTF-8."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from regard.errors import UserError
from regard.files import write_text


def one_line(text: str) -> str:
    """A text without the line ends that a file of lines knows (\\n, \\r\\n, \\r); others, such as U+2028, stay."""
    return re.sub(r"\r\n|[\r\n]", " ", text)


def write_lines(path: str | Path, texts: Iterable[str]) -> None:
    """Write one text a line; a line end inside a text becomes a space, so that there are as many lines as texts."""
    write_text(Path(path), "".join(f"{one_line(text)}\n" for text in texts))


def check_writable(*paths: str | Path | None) -> None:
    """UserError if a file could not be written there ("-" is stdout); call it before work that would be lost."""
    for path in paths:
        if path is not None and str(path) != "-":
            _check(path)


def _check(path: str | Path) -> None:
    folder = Path(path).parent
    if not folder.is_dir():
        raise UserError(f"{path}: there is no folder {folder}")
    if Path(path).is_dir():
        raise UserError(f"{path} is a folder: name a file")
    if not os.access(folder, os.W_OK):
        raise UserError(f"{path}: no permission to write in {folder}")
