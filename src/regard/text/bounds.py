"""What no tokenizer.json can mean, refused before the library that reads it takes memory for it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Any

from regard.errors import UserError

HOLES = 1_000_000
"""Ids without an entry that a vocabulary may have: the library writes each of them down whenever it copies one."""
GROWTH = 1000
"""So many times longer may a normaliser or a decoder make a text."""
LONGEST = 1 << 16
"""Characters that a normaliser or a decoder may put in one place."""
EXACT = re.compile(r"\\A(?:[^\W_]|[<>_]|\\x\{[0-9A-F]{1,6}\})+\\z")
"""A regular expression that is one piece as a whole, such as regard's decoders replace."""


def check_file(file: Any) -> None:
    """Look through a tokenizer.json. UserError: an id far beyond the entries, or steps that could make any text longer
    without measure: each alone may be harmless, and forty that double a letter fill the memory."""
    if not isinstance(file, dict):
        return  # the library says what it is instead
    _check_ids(file.get("model"))
    for part, name in (("normalizer", "normaliser"), ("decoder", "decoder")):
        times, longest = 1, 1
        for step in _steps(file.get(part)):
            grows, put = _growth(step)
            times, longest = times * grows, max(longest * grows, put)
            if times > GROWTH:
                raise UserError(f"its {name} could make a text more than {GROWTH:,} times longer, which no real one does")
            if longest > LONGEST:
                raise UserError(
                    f"its {name} could put more than {LONGEST:,} characters in one place, which no real one does"
                )


def highest(file: dict[str, Any]) -> int:
    """The largest id of a tokenizer.json, -1 if it has none."""
    model = file.get("model")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    ids = vocab.values() if isinstance(vocab, dict) else range(len(vocab or ()))
    added = [token.get("id") for token in file.get("added_tokens") or () if isinstance(token, dict)]
    return max((number for number in (*ids, *added) if isinstance(number, int)), default=-1)


def _check_ids(model: Any) -> None:
    vocab = model.get("vocab") if isinstance(model, dict) else None
    if not isinstance(vocab, dict):
        return
    most = highest({"model": model})
    if most > len(vocab) + HOLES:
        raise UserError(f"its vocabulary has {len(vocab):,} entries and the id {most:,}, so nearly all ids would be holes")


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
        for key in ("normalizers", "decoders"):
            inner = part.get(key)
            for one in inner if isinstance(inner, list) else ():
                yield from _steps(one)


def _growth(step: dict[str, Any]) -> tuple[int, int]:
    """How many times longer a step can make a text, and how many characters it can put in one place."""
    kind = step.get("type")
    if kind == "Precompiled":
        longest = _longest_entry(step.get("precompiled_charsmap"))
        return max(1, longest), longest
    if kind == "Prepend":
        return 1, _length(step.get("prepend"))
    if kind != "Replace":
        return 1, 1
    content, pattern = _length(step.get("content")), step.get("pattern")
    if isinstance(pattern, dict) and isinstance(pattern.get("String"), str):
        return max(1, -(-content // max(len(pattern["String"]), 1))), content
    expression = pattern.get("Regex") if isinstance(pattern, dict) else None
    if isinstance(expression, str) and EXACT.fullmatch(expression):
        return 1, content
    return 1 + content, content  # it may match nothing, between all characters


def _length(text: Any) -> int:
    return len(text) if isinstance(text, str) else 0


def _longest_entry(packed: Any) -> int:
    """Bytes of the longest text that a table of SentencePiece puts in the place of another."""
    try:
        data = base64.b64decode(packed or b"")
    except (TypeError, ValueError):
        return 0  # the library says what is wrong
    table = int.from_bytes(data[:4], "little")
    return max(map(len, data[4 + table :].split(b"\0")))
