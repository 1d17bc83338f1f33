"""Subtitles, SRT and WebVTT: the text of cues; numbers, times, settings, notes and styles stay as they are.

A sentence that goes on in the next cue is translated as one; the border between them is a mark in it.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.text.formats.document import Document, Piece, Segment, Span, segment, unescaped

_LINE = re.compile(r"([^\r\n]*)(\r\n?|\n|\Z)")
_TIME = re.compile(r"[ \t]*(?:\d+:)?\d{1,2}:\d{2}[,.]\d{1,3}[ \t]+-->[ \t]+(?:\d+:)?\d{1,2}:\d{2}[,.]\d{1,3}")
_TAG = re.compile(r"<(/?)([A-Za-z]\w*+)[^<>]*>|<\d[\d:.]*>|\{[^{}\n]*\}")
_DIALOGUE = re.compile(r"[-–—][ \t]*(?=\S)")
_ENDS = tuple('.!?…。！？"»”’)]♪:;')
LONGEST = 42
"""Characters of a line that need no second one."""
MOST = 4
"""Cues that share a sentence at most."""


@dataclass(frozen=True)
class _Line:
    start: int
    end: int
    text: str


def _cues(source: str) -> list[list[_Line]]:
    """The lines of text of each cue."""
    lines = [_Line(match.start(1), match.end(1), match[1]) for match in _LINE.finditer(source)]
    found, at = [], 0
    while at < len(lines):
        at += 1
        if not _TIME.match(lines[at - 1].text):
            continue
        begin = at
        while at < len(lines) and lines[at].text.strip() and not _TIME.match(lines[at].text):
            at += 1
        found.append(lines[begin:at])
    return found


def _units(cue: Sequence[_Line]) -> list[list[_Line]]:
    """The lines of a cue, apart where another person begins to speak."""
    found: list[list[_Line]] = []
    for line in cue:
        if not found or _DIALOGUE.match(_TAG.sub("", line.text).lstrip()):
            found.append([])
        found[-1].append(line)
    return found


def _goes_on(unit: Sequence[_Line], after: Sequence[_Line]) -> bool:
    """Whether the sentence of a cue goes on in the next."""
    end, begin = (_TAG.sub("", lines[place].text).strip() for lines, place in ((unit, -1), (after, 0)))
    return bool(end and begin) and not end.endswith(_ENDS) and begin[0].islower()


@dataclass
class Subtitles(Document):
    """A file of subtitles. escaped: whether &, < and > are written as entities (WebVTT)."""

    escaped: bool = False

    @cached_property
    def end(self) -> str:
        """How lines end."""
        return "\r\n" if "\r\n" in self.source else "\n"

    def encode(self, one: Segment, parts: Sequence[str]) -> Sequence[str]:
        texts = [
            html.escape(text, quote=False) if self.escaped and number % 2 == 0 else text for number, text in enumerate(parts)
        ]
        joints = {piece.start: self.source[piece.start : piece.end] for piece in (one.marks[mark] for mark in one.joint)}
        raws = [raw for _, raw in sorted(joints.items())]
        cues, begin = [], 0
        for number in range(1, len(texts), 2):
            if texts[number] in raws:
                cues.append("".join(texts[begin:number]))
                begin = number + 1
        cues.append("".join(texts[begin:]))
        if not all(_TAG.sub("", cue).strip() for cue in cues):
            cues = _shared("".join(texts[n] for n in range(len(texts)) if texts[n] not in raws), len(cues))
        counts = [len(re.findall(r"\r\n?|\n", part)) + 1 for part in self._cues_of(one)]
        shown = [_wrapped(cue.strip(), count, self.end) for cue, count in zip(cues, counts)]
        return [part for pair in zip(shown, [*raws, ""]) for part in pair]

    def frame(self) -> str:
        """All but the words: what stands between the texts of cues, how many people speak in each, and the tags of all."""
        found, at, tags = "", 0, []
        for cue in _cues(self.source):
            if cue:
                text = self.source[cue[0].start : cue[-1].end]
                tags += [match[0] for match in _TAG.finditer(text)]
                found += f"{self.source[at : cue[0].start]}\0{len(_units(cue))}{bool(_TAG.sub('', text).strip())}\0"
                at = cue[-1].end
        return found + self.source[at:] + "".join(sorted(tags))

    def _cues_of(self, one: Segment) -> list[str]:
        """The text of each cue of a segment as it is in the file."""
        places = sorted((one.marks[mark].start, one.marks[mark].end) for mark in one.joint)
        starts, ends = [one.start, *(end for _, end in places)], [*(start for start, _ in places), one.end]
        return [self.source[start:end] for start, end in zip(starts, ends)]


def _shared(text: str, count: int) -> list[str]:
    """A text in so many parts of about the same length, between words where it can be."""
    return _wrapped(" ".join(text.split()), count, "\n", 0).split("\n")


def _wrapped(text: str, count: int, end: str, longest: int = LONGEST) -> str:
    """The text in at most so many lines of about the same length, if one is too short for it. Lines end between words, or
    between characters of a script without spaces; never in a tag."""
    text = re.sub(r"[ \t]*[\r\n]+[ \t]*", " ", text)
    plain = _TAG.sub("", text)
    if count == 1 or len(plain) <= longest:
        return text
    tags = [match.span() for match in _TAG.finditer(text)]
    spaces = [match.span() for match in re.finditer(r" +", text)]
    breaks = spaces if len(spaces) >= count - 1 else [(place, place) for place in range(1, len(text))]
    breaks = [span for span in breaks if not _within(span, tags)]
    breaks = [span for span in breaks if text[span[1] : span[1] + 1] not in "-–—"]  # which would be another speaker
    lines, at = [], 0
    for left in range(count, 1, -1):
        goal = at + (len(text) - at) / left
        first = bisect_right(breaks, at, key=_begin)
        if first == len(breaks):
            break
        near = max(bisect_left(breaks, goal, key=_begin), first)
        best = min(breaks[max(near - 1, first) : near + 1], key=lambda span: abs(span[0] - goal))
        lines.append(text[at : best[0]])
        at = best[1]
    return end.join([*lines, text[at:]])


def _begin(span: Span) -> int:
    return span[0]


def _within(span: Span, tags: Sequence[Span]) -> bool:
    """Whether one of the tags, which are in order, shares characters with a range."""
    place = bisect_left(tags, span[1], key=_begin) - 1
    return place >= 0 and tags[place][1] > span[0]


def _pieces(unit: Sequence[_Line], escaped: bool) -> list[Piece]:
    """The lines of a unit as pieces; a line end is a space."""
    found: list[Piece] = []
    for number, line in enumerate(unit):
        if number:
            found.append(Piece("text", unit[number - 1].end, line.start, " "))
        at = line.start
        for match in _TAG.finditer(line.text):
            found += _text(line, at, line.start + match.start(), escaped)
            at = line.start + match.end()
            kind = "alone" if match[2] is None else "close" if match[1] else "open"
            found.append(Piece(kind, line.start + match.start(), at, (match[2] or "").lower()))
        found += _text(line, at, line.end, escaped)
    return found


def _text(line: _Line, start: int, end: int, escaped: bool) -> list[Piece]:
    raw = line.text[start - line.start : end - line.start]
    return [Piece("text", start, end, unescaped(raw) if escaped else raw)] if raw else []


def _segments(source: str, escaped: bool) -> list[Segment]:
    runs: list[list[list[_Line]]] = []
    before: list[_Line] | None = None
    for cue in _cues(source):
        units = _units(cue)
        for number, unit in enumerate(units):
            if before and number == 0 and len(units) == 1 and len(runs[-1]) < MOST and _goes_on(before, unit):
                runs[-1].append(unit)
            else:
                runs.append([unit])
        before = units[-1] if len(units) == 1 else None
    found = []
    for run in runs:
        pieces: list[Piece] = []
        joints = []
        for number, unit in enumerate(run):
            if number:
                joints.append(run[number - 1][-1].end)
                pieces.append(Piece("text", joints[-1], joints[-1], " "))
                pieces.append(Piece("alone", joints[-1], unit[0].start))
            pieces += _pieces(unit, escaped)
        made = segment(_trimmed(pieces, source), joints) if pieces else None
        found += [made] if made else []
    return found


def _trimmed(pieces: list[Piece], source: str) -> list[Piece]:
    """Without white space, and the mark of a speaker, at the ends."""
    first, last = pieces[0], pieces[-1]
    if last.kind == "text":
        raw = source[last.start : last.end]
        pieces[-1] = last = Piece("text", last.start, last.start + len(raw.rstrip()), last.text.rstrip())
    if len(pieces) == 1:
        first = last
    if first.kind == "text":
        match = re.match(r"\s*(?:[-–—][ \t]*(?=\S))?", source[first.start : first.end])
        skip = match.end() if match else 0
        pieces[0] = Piece("text", first.start + skip, first.end, first.text[skip:])
    return pieces


def read_srt(text: str) -> Document:
    """The cues of an SRT file."""
    return Subtitles(text, _segments(text, False), read_srt)


def read_vtt(text: str) -> Document:
    """The cues of a WebVTT file."""
    return Subtitles(text, _segments(text, True), read_vtt, escaped=True)
