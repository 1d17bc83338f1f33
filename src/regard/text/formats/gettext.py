"""Catalogues of gettext (.po, .pot): empty translations are filled in, all other lines stay as they are.

polib reads and writes the strings; the places come from the lines themselves, because polib wraps all of a file anew.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from regard.errors import UserError
from regard.text.formats.document import Document, Segment

KEEP = (
    r":[\w:.+-]{1,80}:`[^`]+`",
    r"``[^`]+``",
    r"`[^`]*<[^<>`]+>`__?",
    r"\|[\w.-]+\|",
    "tags",
    "variables",
    "urls",
    "emails",
    "code",
)
"""What translators of catalogues leave as it is: roles, code and links of reStructuredText, and the usual kinds."""
_LINE = re.compile(r"([^\r\n]*)(\r\n?|\n|\Z)")
_FIELD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d+)\])?)[ \t]+(\".*\")[ \t]*\Z")
_STRING = re.compile(r"\"(.*)\"[ \t]*\Z")
_PLURALS = re.compile(r"nplurals\s*=\s*(\d{1,9})")


@dataclass
class _Entry:
    """pieces: the strings of each field by its name ("msgstr[1]"). places: the characters of its lines, the last line end
    not among them. start: where the fields begin. flags: the place where the flags end, after "#,", if there are any."""

    pieces: dict[str, list[str]] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    start: int = 0
    flags: tuple[int, str] | None = None

    @cached_property
    def fields(self) -> dict[str, str]:
        """The value of each field."""
        return {name: "".join(strings) for name, strings in self.pieces.items()}


def _polib() -> Any:
    try:
        import polib
    except ImportError:
        raise UserError("catalogues of gettext need polib: pip install 'regard[documents]'") from None
    return polib


def _entries(source: str) -> Iterator[_Entry]:
    """The entries of a catalogue, obsolete ones left out. UserError names a line that is none of the format."""
    polib, now, name = _polib(), _Entry(), ""
    for number, match in enumerate(_LINE.finditer(source), 1):
        line, start, end = match[1], match.start(1), match.end(1)
        found, more = _FIELD.match(line), _STRING.match(line)
        if found:
            name = found[1]
            if name in ("msgctxt", "msgid") and any(key.startswith("msgstr") for key in now.pieces):
                yield now
                now = _Entry()
            if not now.pieces:
                now.start = start
            now.pieces[name] = [polib.unescape(found[3][1:-1])]
            now.places[name] = (start, end)
        elif more and name:
            now.pieces[name].append(polib.unescape(more[1]))
            now.places[name] = (now.places[name][0], end)
        elif not line.strip() or line.startswith("#"):
            if now.pieces:
                yield now
                now, name = _Entry(), ""
            if line.startswith("#,"):
                now.flags = (end, line)
        else:
            raise UserError(f"line {number} of the catalogue is no line of a .po file: {line[:40]!r}")
    if now.pieces:
        yield now


@dataclass
class Catalogue(Document):
    """A catalogue. Its segments are the lines of empty translations. entries: the entry and the field of each."""

    entries: list[tuple[_Entry, str]] = field(default_factory=list)

    def write(self, translations: Sequence[str | None], doubtful: Collection[int] = ()) -> str:
        if len(translations) != len(self.segments):
            raise ValueError(f"{len(translations)} translations for {len(self.segments)} segments")
        edits: dict[tuple[int, int], str] = {}
        end = "\r\n" if "\r\n" in self.source else "\n"
        for number, (one, text) in enumerate(zip(self.segments, translations)):
            if text is None:
                continue
            entry, name = self.entries[number]
            edits[one.start, one.end] = _lines(name, _edged(text, one.text), end)
            if number in doubtful:
                edits.update(_fuzzy(entry, end))
        found, at = self.lead, 0
        for (start, stop), text in sorted(edits.items()):
            found += self.source[at:start] + text
            at = stop
        return found + self.source[at:]

    def frame(self) -> str:
        """All but the translations that were empty, and the mark of doubtful ones."""
        found, at = "", 0
        for entry in _entries(self.source):
            if entry.flags is not None:
                place = entry.flags[0] - len(entry.flags[1])
                flags = [flag.strip() for flag in entry.flags[1][2:].split(",")]
                found += self.source[at:place].rstrip() + "".join(f"#, {flag}" for flag in flags if flag != "fuzzy")
                at = entry.flags[0]
            for name, (start, stop) in entry.places.items():
                if name.startswith("msgstr") and entry.fields.get("msgid"):
                    found += self.source[at:start].rstrip() + name
                    at = stop
        return re.sub(r"[\r\n]+", "\n", (found + self.source[at:]).strip())

    def changed(self, text: str) -> bool:
        pairs = zip(_entries(self.source), _entries(text.removeprefix(self.lead)))
        kept = all(
            value == new.fields.get(name)
            for old, new in pairs
            for name, value in old.fields.items()
            if value or name == "msgid"
        )
        return not kept or super().changed(text)


def _edged(text: str, source: str) -> str:
    """The text with as many line ends before and after it as the source has, which msgfmt asks for."""
    before, after = len(source) - len(source.lstrip("\n")), len(source) - len(source.rstrip("\n"))
    return "\n" * before + text.strip("\n") + "\n" * after


def _lines(name: str, text: str, end: str) -> str:
    """A field as polib writes it, without its last line end."""
    polib = _polib()
    plural = name.startswith("msgstr[")
    entry = polib.POEntry(msgid="x", **({"msgid_plural": "x", "msgstr_plural": {0: text}} if plural else {"msgstr": text}))
    written = str(entry).split("\n")
    begin = next(n for n, line in enumerate(written) if line.startswith("msgstr"))
    lines = [line for line in written[begin:] if line]
    lines[0] = name + lines[0][lines[0].index(" ") :]
    return end.join(lines)


def _fuzzy(entry: _Entry, end: str) -> dict[tuple[int, int], str]:
    """The edit that marks an entry as doubtful; none if it is marked already."""
    if entry.flags is None:
        return {(entry.start, entry.start): f"#, fuzzy{end}"}
    place, line = entry.flags
    if re.search(r"[,\s]fuzzy\s*(,|\Z)", line):
        return {}
    return {(place - len(line), place): "#, fuzzy," + line[2:]}


def _header(entries: Sequence[_Entry]) -> str:
    return next((entry.fields.get("msgstr", "") for entry in entries if entry.fields.get("msgid") == ""), "")


def _plurals(entries: Sequence[_Entry]) -> int:
    """How many forms a noun has, as the header says; two where it says nothing."""
    match = _PLURALS.search(_header(entries))
    return int(match[1]) if match else 2


def _of_plural(name: str, forms: int) -> str:
    """Which field of the source a plural form translates: the singular is the first form where there are several."""
    return "msgid" if name == "msgstr[0]" and forms > 1 else "msgid_plural"


def read(text: str) -> Document:
    """The entries without a translation. UserError: the text is no catalogue, or says that it is not UTF-8."""
    entries = list(_entries(text))
    charset = re.search(
        r"charset=([\w-]+)", next((e.fields.get("msgstr", "") for e in entries if not e.fields.get("msgid")), "")
    )
    if charset and charset[1].lower() not in ("utf-8", "utf8", "charset", "ascii", "us-ascii"):
        raise UserError(f"the catalogue says charset={charset[1]}; it should be UTF-8 (msgconv -t UTF-8)")
    forms, found = _plurals(entries), []
    for entry in entries:
        for name, (start, end) in entry.places.items():
            if not name.startswith("msgstr") or entry.fields[name] or not entry.fields.get("msgid"):
                continue
            wanted = _of_plural(name, forms) if "[" in name else "msgid"
            if wanted not in entry.fields:
                raise UserError(f"the catalogue has {name} without {wanted}, for msgid {entry.fields['msgid'][:40]!r}")
            source = entry.fields[wanted]
            if any(character.isalpha() for character in source):
                found.append((Segment(start, end, source), (entry, name)))
    catalogue = Catalogue(text, [one for one, _ in found], read, KEEP)
    catalogue.entries = [where for _, where in found]
    return catalogue
