"""A document as its own text with stretches in it that are translated; all the rest stays as it is, character by character.

What stands inside such a stretch and is no text (tags, code, links) is shown to whoever translates as neutral marks: a pair
<g1>…</g1> around text, <x2/> alone. They come back in another order, never changed, and each exactly once.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Span = tuple[int, int]

MARK = re.compile(r"</?g\d+>|<x\d+/>")
"""Neutral marks in the text of a segment."""
_BORDER = "\0"
_ZEROS, _BEYOND = re.compile(r"&#0+(?=\d)"), re.compile(r"&#[1-9]\d{7,}+;?")


@dataclass(frozen=True)
class Piece:
    """One piece of a stretch: characters `start` to `end` of the document. text: of text what it says (entities and escapes
    undone), of an opening and its closing their common name. written: what is written instead once the text is another."""

    kind: Literal["text", "open", "close", "alone"]
    start: int
    end: int
    text: str = ""
    written: str | None = None


@dataclass(frozen=True)
class Segment:
    """A stretch of a document. text: what is to be translated, with neutral marks; marks: the pieces they stand for.
    joint: of the marks those between two units that must both have text (subtitles that share a sentence)."""

    start: int
    end: int
    text: str
    marks: Mapping[str, Piece] = field(default_factory=dict)
    joint: tuple[str, ...] = ()


def segment(pieces: Sequence[Piece], joint: Collection[int] = ()) -> Segment | None:
    """The segment that pieces in a row make; None if there is nothing to translate in them, or the text itself has what
    looks like a mark. An opening without its closing stands alone. joint: where the pieces begin that are joints."""
    partner = _pairs(pieces)
    text, marks, joints, count = "", {}, [], 0
    names: dict[int, str] = {}
    for number, piece in enumerate(pieces):
        if piece.kind == "text":
            text += piece.text
            continue
        if number in partner and partner[number] < number:
            mark = f"</{names[partner[number]]}>"
        else:
            count += 1
            names[number] = f"g{count}" if number in partner else f"x{count}"
            mark = f"<{names[number]}>" if number in partner else f"<{names[number]}/>"
        marks[mark] = piece
        text += mark
        if piece.start in joint:
            joints.append(mark)
    if MARK.findall(text) != list(marks) or not any(character.isalpha() for character in MARK.sub("", text)):
        return None
    return Segment(pieces[0].start, pieces[-1].end, text, marks, tuple(joints))


def _pairs(pieces: Sequence[Piece]) -> dict[int, int]:
    """For the number of each piece of a pair that of the other: the nearest opening of the same name that is still open."""
    found: dict[int, int] = {}
    waiting: list[int] = []
    names: Counter[str] = Counter()
    for number, piece in enumerate(pieces):
        if piece.kind == "open":
            waiting.append(number)
            names[piece.text] += 1
        elif piece.kind == "close" and names[piece.text]:
            opening = waiting.pop()
            names[pieces[opening].text] -= 1
            while pieces[opening].text != piece.text:
                opening = waiting.pop()
                names[pieces[opening].text] -= 1
            found[number], found[opening] = opening, number
    return found


def unescaped(text: str) -> str:
    """The text with the references of HTML as the characters that they name; numbers that name none, of any length, as
    U+FFFD."""
    return html.unescape(_BEYOND.sub("\ufffd", _ZEROS.sub("&#", text)) if "&#" in text else text)


def cut(text: str) -> list[str]:
    """A text with neutral marks as texts and marks by turns, a text first and last."""
    found, at = [], 0
    for match in MARK.finditer(text):
        found += [text[at : match.start()], match[0]]
        at = match.end()
    return [*found, text[at:]]


def whole(one: Segment, text: str) -> bool:
    """Whether a translation has each mark of the segment exactly once, its pairs one inside or beside the other."""
    marks = cut(text)[1::2]
    if sorted(marks) != sorted(one.marks):
        return False
    waiting: list[str] = []
    for mark in marks:
        if mark.startswith("</"):
            if not waiting or waiting.pop() != mark.replace("/", ""):
                return False
        elif mark.startswith("<g"):
            waiting.append(mark)
    return not waiting


@dataclass
class Document:
    """source: the document's text. segments: in order; one may stand inside a mark of another (an attribute of a tag).
    keep: what else is carried through unchanged, as kinds of `regard.text.kept.KINDS` or regular expressions. lead: a
    mark before the text (BOM). again: reads a document of this format anew."""

    source: str
    segments: list[Segment]
    again: Callable[[str], Document]
    keep: tuple[str, ...] = ("variables", "urls", "emails")
    lead: str = ""

    def __post_init__(self) -> None:
        self.segments.sort(key=lambda one: (one.start, -one.end))

    def write(self, translations: Sequence[str | None], doubtful: Collection[int] = ()) -> str:
        """The document with these translations, one a segment, with its marks; None leaves the segment as it is, and so does
        its own text. doubtful: numbers of segments whose translation should be marked so, where the format can say it.
        ValueError: too few or too many, or marks are not there exactly once, properly nested."""
        if len(translations) != len(self.segments):
            raise ValueError(f"{len(translations)} translations for {len(self.segments)} segments")
        for number, (one, text) in enumerate(zip(self.segments, translations)):
            if text is not None and not whole(one, text):
                raise ValueError(f"segment {number}: the marks of {text!r} are not those of {one.text!r}")
        return self.lead + self._slice(0, len(self.source), -1, translations)

    def changed(self, text: str) -> bool:
        """Whether a text that was written differs from this document in more than the segments' texts."""
        read = self.again(text.removeprefix(self.lead))
        return read.frame() != self.frame()

    def frame(self) -> str:
        """All that must stay: what stands between segments, and in each its marks, whatever their order."""
        return self._frame(0, len(self.source), -1)

    def encode(self, one: Segment, parts: Sequence[str]) -> Sequence[str]:
        """What is written for texts and raw marks by turns (a text first and last), in the escapes of the format."""
        return parts

    def _inner(self, start: int, end: int, after: int) -> Iterator[int]:
        """The numbers of the outermost segments after number `after` that lie in a range."""
        at = start
        for number in range(after + 1, len(self.segments)):
            one = self.segments[number]
            if one.start >= end:
                break
            if one.start >= at and one.end <= end:
                yield number
                at = one.end

    def _slice(self, start: int, end: int, after: int, translations: Sequence[str | None]) -> str:
        found, at = "", start
        for number in self._inner(start, end, after):
            one = self.segments[number]
            found += self.source[at : one.start] + self._written(number, translations)
            at = one.end
        return found + self.source[at:end]

    def _written(self, number: int, translations: Sequence[str | None]) -> str:
        one, text = self.segments[number], translations[number]
        if text is None or text == one.text:
            return self._slice(one.start, one.end, number, translations)
        parts = cut(text)
        for place in range(1, len(parts), 2):
            piece = one.marks[parts[place]]
            raw = self._slice(piece.start, piece.end, number, translations)
            parts[place] = raw if piece.written is None else piece.written
        return "".join(self.encode(one, parts))

    def _frame(self, start: int, end: int, after: int) -> str:
        found, at = "", start
        for number in self._inner(start, end, after):
            one = self.segments[number]
            marks = sorted(
                self._frame(piece.start, piece.end, number) if piece.written is None else piece.written
                for piece in one.marks.values()
            )
            found += self.source[at : one.start] + _BORDER + _BORDER.join(marks) + _BORDER
            at = one.end
        return found + self.source[at:end]
