"""HTML: the text of a page between its tags, as the standard library's parser reads it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser

from regard.text.formats.document import Document, Piece, Segment, segment, unescaped

_WORDS = """
a abbr acronym b bdi bdo big cite data del dfn em font i img ins label mark q rb rp rt ruby s small span strike strong sub
sup time u wbr | code kbd math samp svg tt var | audio canvas object pre script style template textarea video |
area base br col embed hr img input link meta source track wbr
"""
INLINE, QUOTED, BLOCKS, VOID = (frozenset(words.split()) for words in _WORDS.split("|"))
"""Elements inside a sentence; those whose content is no text to translate, inside a sentence and not; those without content.
All that are not among the first two end a sentence."""
_TEXTUAL = re.compile(
    r"""(?<![\w-])(?P<name>alt|title|placeholder|aria-label|label)\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)')""", re.I
)
_META = re.compile(r"""name\s*=\s*["']?(?:description|keywords|og:title|og:description)\b""", re.I)
_CONTENT = re.compile(r"""content\s*=\s*"(?P<double>[^"]*)\"""", re.I)
_NO = re.compile(r"""\btranslate\s*=\s*["']?no\b|\bclass\s*=\s*("[^"]*\bnotranslate\b|'[^']*\bnotranslate\b)""", re.I)
_SPACE = re.compile(r"[ \t\r\n\f]+")


@dataclass
class Event:
    """What the parser met: a tag (start, end, both at once), text, or another thing (comment, declaration)."""

    kind: str
    start: int
    name: str = ""
    end: int = 0


class _Events(HTMLParser):
    """The events of a page with their places."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[Event] = []
        self.lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self.unended = -1
        last = text.rfind(">") + 1  # behind which nothing can be a tag: the parser would look for its end again and again
        # References are text here, and the parser stumbles over some: over "&#" alone, or numbers of thousands of digits.
        self.feed(text[:last].replace("&", "."))
        self.close()
        self.found += [Event("text", last)] if last < len(text) else []
        for one, after in zip(self.found, [*self.found[1:], Event("", len(text))]):
            one.end = after.start

    def parse_comment(self, i: int, report: bool = True) -> int:
        """As the parser's own, which looks through all of the rest at each comment that has no end."""
        left = len(self.rawdata) - i
        found = -1 if left <= self.unended else super().parse_comment(i, report)
        self.unended = left if found < 0 else self.unended
        return found

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """As the parser's own; what is none is a comment up to the next >, as browsers have it."""
        place = self.lineno, self.offset
        try:
            return super().parse_marked_section(i, report)
        except AssertionError:
            self.lineno, self.offset = place
            return self.parse_bogus_comment(i, report)

    def _add(self, kind: str, name: str = "") -> None:
        line, column = self.getpos()
        self.found.append(Event(kind, self.lines[line - 1] + column, name))

    def handle_starttag(self, tag: str, attrs: Sequence[object]) -> None:
        self._add("both" if tag in VOID else "start", tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[object]) -> None:
        self._add("both", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_data(self, data: str) -> None:
        self._add("text")

    def handle_comment(self, data: str) -> None:
        self._add("other")

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def handle_pi(self, data: str) -> None:
        self._add("other")

    def unknown_decl(self, data: str) -> None:
        self._add("other")


@dataclass
class _Reader:
    """Gathers runs of pieces that make a segment each."""

    text: str
    attributes: bool
    segments: list[Segment] = field(default_factory=list)
    run: list[Piece] = field(default_factory=list)

    def read(self) -> list[Segment]:
        """All segments of the page."""
        events = _Events(self.text).found
        at = 0
        while at < len(events):
            at = self._event(events, at)
        self._flush()
        return self.segments

    def _event(self, events: list[Event], at: int) -> int:
        """Take an event, or an element that is passed over whole; gives the number of the next."""
        one = events[at]
        if one.kind == "text":
            plain = _SPACE.sub(" ", unescaped(self.text[one.start : one.end]))
            self.run.append(Piece("text", one.start, one.end, plain))
            return at + 1
        if one.kind == "other":
            self.run.append(Piece("alone", one.start, one.end))
            return at + 1
        raw = self.text[one.start : one.end]
        if one.kind == "start" and (one.name in QUOTED | BLOCKS or _NO.search(raw)):
            last = _closing(events, at)
            if one.name in INLINE | QUOTED:
                self.run.append(Piece("alone", one.start, events[last].end))
            else:
                self._flush()
            return last + 1
        if one.name not in INLINE:
            self._flush()
        elif one.kind == "both":
            self.run.append(Piece("alone", one.start, one.end))
        else:
            self.run.append(Piece("open" if one.kind == "start" else "close", one.start, one.end, one.name))
        if self.attributes and one.kind != "end":
            self._attributes(one)
        return at + 1

    def _attributes(self, one: Event) -> None:
        raw = self.text[one.start : one.end]
        found: Iterable[re.Match[str] | None] = _TEXTUAL.finditer(raw)
        if one.name == "meta":
            told = _META.search(raw)
            found = [_CONTENT.search(raw, told.end())] if told else []
        for match in found:
            group = match and ("double" if match["double"] is not None else "single")
            if match and group and match[group].strip():
                start, end = (one.start + place for place in match.span(group))
                made = segment([Piece("text", start, end, unescaped(self.text[start:end]))])
                self.segments += [made] if made else []

    def _flush(self) -> None:
        run, self.run = _trimmed(self.run, self.text), []
        made = segment(run) if run else None
        if made is not None:
            self.segments.append(made)


def _closing(events: list[Event], at: int) -> int:
    """The number of the event that ends the element begun at `at`; the last of all if none does."""
    depth = 0
    for number in range(at, len(events)):
        if events[number].name == events[at].name:
            depth += {"start": 1, "end": -1}.get(events[number].kind, 0)
            if depth == 0:
                return number
    return len(events) - 1


def _says_nothing(piece: Piece, text: str) -> bool:
    return piece.text.isspace() if piece.kind == "text" else text.startswith("<!", piece.start)


def _trimmed(run: list[Piece], text: str) -> list[Piece]:
    """The run without white space and comments at its ends."""
    first, after = 0, len(run)
    while first < after and _says_nothing(run[first], text):
        first += 1
    while first < after and _says_nothing(run[after - 1], text):
        after -= 1
    run = run[first:after]
    if run and run[0].kind == "text":
        raw = text[run[0].start : run[0].end]
        lead = len(raw) - len(raw.lstrip(" \t\r\n\f"))
        run[0] = Piece("text", run[0].start + lead, run[0].end, run[0].text.lstrip(" "))
    if run and run[-1].kind == "text":
        raw = text[run[-1].start : run[-1].end]
        last = len(raw) - len(raw.rstrip(" \t\r\n\f"))
        run[-1] = Piece("text", run[-1].start, run[-1].end - last, run[-1].text.rstrip(" "))
    return run


@dataclass
class Page(Document):
    """An HTML document."""

    def encode(self, one: Segment, parts: Sequence[str]) -> Sequence[str]:
        raw = self.source[one.start : one.end]
        quoted = one.start > 0 and self.source[one.start - 1] in "\"'" and self.source[one.end : one.end + 1] in ('"', "'")
        found, spaced = list(parts), "&nbsp;" in raw
        for place in range(0, len(found), 2):
            text = html.escape(found[place], quote=quoted)
            found[place] = text.replace("\xa0", "&nbsp;") if spaced else text
        return found


def read(text: str, attributes: bool = False) -> Document:
    """The texts of a page. attributes: alt, title, placeholder, aria-label, label and descriptions of the page too."""
    return Page(text, _Reader(text, attributes).read(), lambda again: read(again, attributes))
