"""Long texts: split into sentences for the model, put together again with their white space untouched.

The sentences are found by `sentencex` (rules and abbreviations of some 300 languages, no model, 5,000 sentences in 20 ms).
pysbd, the usual choice, has had no release since 2021 and changes white space; neural splitters need a second model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.errors import UserError

_LINE = re.compile(r"[^\n\r\u2028\u2029\x85]+|[\n\r\u2028\u2029\x85]+")
_SPACE = re.compile(r"\s")
_WORD = re.compile(r"\S+\s*")


@dataclass(frozen=True)
class Sentence:
    """A part of a text: white space, what is translated (may be empty), white space. start: where `core` begins in it."""

    before: str
    core: str
    after: str
    start: int


def split(
    text: str, language: str | None = None, lines: bool = True, fits: Callable[[str], bool] | None = None
) -> list[Sentence]:
    """The sentences of a text: their before, core and after, joined, are the text.

    language: a code such as "en", for its abbreviations. lines: a line end ends a sentence. fits: whether the model reads
    all of a sentence; one that does not fit is cut between words, or between characters where a word alone is too long.
    UserError if the library for it is not installed.
    """
    found: list[Sentence] = []
    place = 0
    for part in _LINE.findall(text) if lines else [text]:
        for piece in _pieces(part, language or "en"):
            for short in [piece] if fits is None else _fitting(piece, fits):
                found.append(_trimmed(short, place))
                place += len(short)
    return found


def whole(text: str) -> list[Sentence]:
    """The text as one sentence."""
    return [_trimmed(text, 0)]


def join(sentences: Sequence[Sentence], answers: Sequence[str]) -> str:
    """The answers to the sentences' cores with the white space of the text around them."""
    return "".join(each.before + answer + each.after for each, answer in zip(sentences, answers, strict=True))


def _trimmed(text: str, place: int) -> Sentence:
    core = text.strip()
    first = len(text) - len(text.lstrip())
    return Sentence(text[:first], core, text[first + len(core) :], place + first)


def _pieces(line: str, language: str) -> list[str]:
    if not line.strip():
        return [line]
    try:
        from sentencex import segment  # pyright: ignore
    except ImportError:
        raise UserError("splitting texts into sentences needs sentencex: pip install 'regard[documents]'") from None
    # It counts white space as one byte, and panics where that is not so: every such character becomes a plain space first,
    # and the lengths of what it finds cut the line itself.
    plain = _SPACE.sub(" ", line)
    try:
        found = segment(language, plain)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of the library's Rust side, which is no Exception
            raise
        return [line]
    if "".join(found) != plain:
        return [line]
    pieces, place = [], 0
    for each in found:
        pieces.append(line[place : place + len(each)])
        place += len(each)
    return pieces


def _fitting(piece: str, fits: Callable[[str], bool]) -> list[str]:
    """The piece, halved between words until every part fits."""
    if len(piece) < 2 or fits(piece.strip()):
        return [piece]
    words = _WORD.findall(piece)
    if len(words) > 1:
        middle = len(piece) - len("".join(words[len(words) // 2 :]))
    else:
        middle = len(piece) // 2
    return _fitting(piece[:middle], fits) + _fitting(piece[middle:], fits)
