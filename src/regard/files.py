"""Files written whole or not at all."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file aside, have the disk hold it, and rename it: whoever looks sees the old content or all of the new."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """`write_bytes` in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path | str, document: Any) -> None:
    """One JSON document into a file, or to stdout for "-"."""
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        write_text(Path(path), text)
