"""The one JSON document that a verb writes with --json."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from regard.files import write_text


def write_document(target: str, document: dict[str, Any]) -> None:
    """Write a document to a file, whole or not at all, or to stdout for "-"."""
    text = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    if target == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_text(Path(target).expanduser(), text)
