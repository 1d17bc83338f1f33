"""Files of translations and of scores: whole or not at all, always UTF-8."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from regard.errors import UserError


def one_line(text: str) -> str:
    """A text without the line ends that a file of lines knows (\\n, \\r\\n, \\r); others, such as U+2028, stay."""
    return re.sub(r"\r\n|[\r\n]", " ", text)


def write_lines(path: str | Path, texts: Iterable[str]) -> None:
    """Write one text a line; a line end inside a text becomes a space, so that there are as many lines as texts."""
    _write(path, "".join(f"{one_line(text)}\n" for text in texts))


def write_json(path: str | Path, document: Any) -> None:
    """Write one JSON document to a file, or for "-" to stdout."""
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        _write(path, text)


def check_writable(path: str | Path | None) -> None:
    """UserError if a file could not be written there; call it before work that would be lost."""
    if path is None or str(path) == "-":
        return
    folder = Path(path).parent
    if not folder.is_dir():
        raise UserError(f"{path}: there is no folder {folder}")
    if Path(path).is_dir():
        raise UserError(f"{path} is a folder: name a file")
    if not os.access(folder, os.W_OK):
        raise UserError(f"{path}: no permission to write in {folder}")


def _write(path: str | Path, text: str) -> None:
    path = Path(path)
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8", newline="\n")  # /dev/stdout, a pipe: nothing to replace
        return
    handle, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o644)
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
