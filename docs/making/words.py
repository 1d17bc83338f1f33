"""What all generated parts are made with: the words of both languages, and tables in Markdown."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
LANGUAGES = ("en", "zh")


class MissingError(LookupError):
    """A text that has no translation."""


@functools.cache
def rows(name: str) -> list[list[str]]:
    """The lines of a TSV file beside this one, as lists of cells."""
    lines = (DOCS / name).read_text(encoding="utf-8").split("\n")
    return [line.split("\t") for line in lines if line]


def say(text: str, language: str) -> str:
    """The text in that language. MissingError: chinese.tsv does not have it."""
    if language == "en" or not text:
        return text
    found = {row[0]: row[1] for row in rows("chinese.tsv")}
    if text not in found:
        raise MissingError(text)
    return found[text]


def cell(text: str) -> str:
    """Text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def table(head: list[str], body: list[list[str]], language: str) -> str:
    """A table in Markdown."""
    names = [say(name, language) for name in head]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)]) + "\n"


def value(default: Any) -> str:
    """A default as YAML has it."""
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def sentence(text: str, language: str) -> str:
    """Words as a sentence."""
    return text[:1].upper() + text[1:] + ("." if language == "en" else "。")


def anchor(title: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
