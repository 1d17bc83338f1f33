"""Markdown (CommonMark with tables and strikethrough), as markdown-it-py reads it.

The library tells the lines of a block but not the characters of what stands in it; its rules are wrapped here so that they
do. Code, links' targets, HTML, definitions and front matter stay as they are.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from regard.errors import UserError
from regard.text.formats.document import Document, Piece, Segment, segment

_LINE = re.compile(r"[^\r\n]*(?:\r\n?|\n|\Z)")
_FRONT = re.compile(r"\A---[ \t]*\r?\n.*?\n(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.S)
_LITERAL = re.compile(r"\[\^[^\[\]\s]+\]:?|\A\[[ xX]\](?=\s)")
"""Of extensions that are read as text: footnotes, boxes of task lists."""
_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*+)[^>]*?(/?)>\Z", re.S)
_SPECIAL = re.compile(r"([\\`*_\[\]<]|~~|&(?=#?\w+;))")
_BEGIN = re.compile(
    r"(?:#{1,6}(?=\s|\Z)|>|[-+](?=\s|\Z)|=+\s*\Z|-+\s*\Z|~~~|\||:?-+:?\s*\|)|(?P<number>\d{1,9})(?P<dot>[.)])(?=\s|\Z)"
)
"""What would begin another block than a paragraph."""
_MARKED = (
    *("backticks", "strikethrough", "emphasis", "link", "image"),
    *("autolink", "html_inline", "newline", "escape", "entity"),
)


@cache
def _parser() -> Any:
    """The library's parser with rules that say where they found what, as `meta["span"]` of tokens."""
    try:
        from markdown_it import MarkdownIt, rules_inline
    except ImportError:
        raise UserError("Markdown needs markdown-it-py: pip install 'regard[documents]'") from None
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.inline.ruler2.disable("fragments_join")
    for name in _MARKED:
        rule: Any = getattr(rules_inline, "backtick" if name == "backticks" else name)
        parser.inline.ruler.at(name, _placed(name, getattr(rule, "tokenize", rule)))
    return parser


def _placed(name: str, rule: Callable[[Any, bool], bool]) -> Callable[[Any, bool], bool]:
    """The rule, telling the tokens that it makes their places."""

    def run(state: Any, silent: bool) -> bool:
        start, count, waits = state.pos, len(state.tokens), bool(state.pending)
        if not rule(state, silent):
            return False
        made = state.tokens[count:]
        if waits and made and made[0].type == "text":  # what had waited
            made = made[1:]
        if not silent and made:
            if name == "link":
                label = state.md.helpers.parseLinkLabel(state, start, True)
                made[0].meta["span"], made[-1].meta["span"] = (start, start + 1), (label, state.pos)
            elif name in ("emphasis", "strikethrough"):
                for token in made:
                    token.meta["span"] = (start, start + len(token.content))
                    start += len(token.content)
            else:
                made[0].meta["span"] = (start, state.pos)
                for token in made[1:]:
                    token.meta["inner"] = True
        return True

    return run


@dataclass
class _Block:
    """The content of a block and where each of its characters stands in the document (one place more than characters)."""

    content: str
    places: list[int]

    def pieces(self, env: Any) -> list[Piece]:
        """The content in pieces."""
        found: list[Piece] = []
        at = 0
        for kind, start, end, text in _items(self.content, env):
            found += self._text(at, start)
            if kind == "hardbreak":
                found.append(Piece("text", self.places[start], self.places[start], " "))
            found.append(self._piece(kind, start, end, text))
            at = end
        return [*found, *self._text(at, len(self.content))]

    def _text(self, start: int, end: int) -> Iterator[Piece]:
        """Plain text, with what extensions of Markdown mean by some of it alone."""
        at = start
        for match in _LITERAL.finditer(self.content, start, end):
            yield from self._plain(at, match.start())
            yield Piece("alone", self.places[match.start()], self.places[match.end()])
            at = match.end()
        yield from self._plain(at, end)

    def _plain(self, start: int, end: int) -> Iterator[Piece]:
        if start < end:
            yield Piece("text", self.places[start], self.places[end], self.content[start:end])

    def _piece(self, kind: str, start: int, end: int, text: str) -> Piece:
        first, last = self.places[start], self.places[end]
        if kind in ("softbreak", "hardbreak", "text_special"):
            said = " " if kind == "softbreak" else text
            return Piece("alone" if kind == "hardbreak" else "text", first, last, said)
        if kind == "html_inline":
            match = _TAG.match(self.content[start:end])
            if match and not match[3]:
                return Piece("close" if match[1] else "open", first, last, f"<{match[2].lower()}>")
        if kind.endswith("_open"):
            return Piece("open", first, last, kind[:-5])
        if kind.endswith("_close"):
            return Piece("close", first, last, kind[:-6], text or None)
        return Piece("alone", first, last)


def _items(content: str, env: Any) -> list[tuple[str, int, int, str]]:
    """What is no plain text in a block's content: kind, half-open range, and of an escape or entity what it says, of the end
    of a short reference what names it in full."""
    parser = _parser()
    tokens: list[Any] = []
    parser.inline.parse(content, parser, env, tokens)
    found = []
    opened: list[tuple[int, int]] = []
    for token in tokens:
        if "span" not in token.meta or token.type == "text" or token.meta.get("inner"):
            continue
        start, end = token.meta["span"]
        kind, text = token.type, token.content if token.type == "text_special" else ""
        if token.tag == "strong":
            start, end = (start - 1, end) if token.nesting > 0 else (start, end + 1)
        if kind == "link_open" and token.info == "auto":
            kind = "autolink"
        elif kind == "link_open":
            opened.append((start, end))
        elif kind == "link_close":
            label = content[opened.pop()[1] : start]
            text = f"][{label}]" if content[start:end] in ("]", "][]") else ""
        elif kind == "hardbreak":
            start -= len(content[:start]) - len(content[:start].rstrip(" "))
        elif kind == "softbreak":
            start -= content[start - 1 : start] == " "
        found.append((kind, start, end, text))
    return sorted(found, key=lambda one: one[1])


@dataclass
class _Reader:
    source: str
    front: int
    lines: list[tuple[int, int]] = field(default_factory=list)
    env: dict[str, Any] = field(default_factory=dict)

    def read(self) -> Iterator[Segment]:
        """The segments of the text after its front matter."""
        for match in _LINE.finditer(self.source, self.front):
            self.lines.append((match.start(), match.start() + len(match[0].rstrip("\r\n"))))
        row, cursor, before = -1, 0, ""
        for token in _parser().parse(self.source[self.front :], self.env):
            cell = before in ("th_open", "td_open")
            if token.type == "inline" and token.content:
                if not cell or token.map[0] != row:
                    row, cursor = token.map[0], self.lines[token.map[0]][0]
                places = self._places(token.content, token.map, cursor, cell)
                if places is not None:
                    cursor = places[-1]
                    made = segment(_Block(token.content, places).pieces(self.env))
                    if made is not None:
                        yield made
            before = token.type

    def _places(self, content: str, lines: list[int], cursor: int, cell: bool) -> list[int] | None:
        """Where each character of a block's content stands; None if it is not found."""
        found: list[int] = []
        for number, line in enumerate(content.split("\n")):
            start, end = self.lines[lines[0] + number]
            said = line.replace("|", "\\|") if cell else line
            at = self._found(said.strip(), start, end, cursor if cell else None)
            if at < 0:
                return None
            lead = len(line) - len(line.lstrip())
            for place, character in enumerate(line):
                found.append(min(at, end))
                at += 0 if place < lead else 2 if character == "|" and said != line else 1
            found.append(min(at, end))
        return found

    def _found(self, said: str, start: int, end: int, cursor: int | None) -> int:
        """Where a line of content begins in its line of the document; -1: nowhere. cursor: of a cell, the end of the one
        before it."""
        if cursor is not None:
            return self.source.find(said, max(cursor, start), end)
        raw = self.source[start:end].rstrip()
        if raw.endswith(said):
            return start + len(raw) - len(said)
        return self.source.rfind(said, start, end)  # a heading closed by hashes


@dataclass
class Markdown(Document):
    """A Markdown document. env: what the parser knows of it, such as its definitions."""

    env: dict[str, Any] = field(default_factory=dict)

    def encode(self, one: Segment, parts: Sequence[str]) -> Sequence[str]:
        texts = [re.sub(r"\s*[\r\n]\s*", " ", text) if n % 2 == 0 else text for n, text in enumerate(parts)]
        for place in range(0, len(texts) - 1, 2):
            if re.match(r"[ \\]*[\r\n]", texts[place + 1]):  # a hard line break brings its own spaces
                texts[place] = texts[place].rstrip(" ")
        if not self._reads(texts):
            texts = [_SPECIAL.sub(r"\\\1", text) if n % 2 == 0 else text for n, text in enumerate(texts)]
        if self._in_table(one):
            texts = [re.sub(r"(?<!\\)\|", r"\\|", text) if n % 2 == 0 else text for n, text in enumerate(texts)]
        texts[0] = _BEGIN.sub(_harmless, texts[0], count=1) if _BEGIN.match(texts[0]) else texts[0]
        return texts

    def _reads(self, texts: Sequence[str]) -> bool:
        """Whether the texts between marks are read as they are written: nothing new begins or ends in them."""
        content = "".join(texts)
        ends, at = [], 0
        for text in texts:
            ends.append((at, at + len(text)))
            at += len(text)
        starts = [start for start, _ in ends]
        for _, start, end, _ in _items(content, self.env):
            place = bisect_left(starts, end) - 1
            if place % 2 == 0 and start >= ends[place][0] and end <= ends[place][1] and start < end:
                return False
        return True

    def _in_table(self, one: Segment) -> bool:
        line = self.source[self.source.rfind("\n", 0, one.start) + 1 : one.start]
        end = self.source.find("\n", one.end)
        return "|" in line + self.source[one.end : end if end >= 0 else None]


def _harmless(match: re.Match[str]) -> str:
    return f"{match['number']}\\{match['dot']}" if match["number"] else "\\" + match[0]


def read(text: str) -> Document:
    """The paragraphs, headings, items and cells of a document."""
    front = _FRONT.match(text)
    reader = _Reader(text, front.end() if front else 0)
    found = list(reader.read())
    return Markdown(text, found, read, env=reader.env)
