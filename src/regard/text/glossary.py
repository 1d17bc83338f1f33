"""Glossaries: terms of the source language with the translations that are allowed for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.text.lines import read_lines
from regard.text.surfaces import joined, kind


class Glossary:
    """entries: for each term its translations. A term in lower case is found in any case, one with a capital letter only as
    it is written; always as whole words, the longest term first. A translation may begin with a capital instead."""

    def __init__(self, entries: Mapping[str, str | Sequence[str]]) -> None:
        self.entries: dict[str, tuple[str, ...]] = {}
        for term, targets in entries.items():
            given = targets.split("|") if isinstance(targets, str) else targets
            kept = tuple(dict.fromkeys(one.strip() for one in given if one.strip()))
            if not term.strip() or not kept:
                raise UserError(f"glossary: {term!r} needs a term and at least one translation")
            self.entries[term.strip()] = kept
        self._lengths = sorted({len(term) for term in self.entries}, reverse=True)

    @classmethod
    def open(cls, path: str | Path) -> Glossary:
        """Read a file of lines "term<TAB>translation|another". Blank lines and lines that begin with # are left out, and
        further columns. UserError names the file and the line that has no tab."""
        entries: dict[str, str] = {}
        for number, line in enumerate(read_lines(Path(path)), 1):
            if not line.strip() or line.startswith("#"):
                continue
            term, tab, rest = line.partition("\t")
            targets = rest.split("\t")[0]
            if not tab or not term.strip() or not targets.strip(" |"):
                raise UserError(f"{path}, line {number}: write a term, a tab, and its translations with | between them")
            term = term.strip()
            entries[term] = f"{entries[term]}|{targets}" if term in entries else targets
        return cls(entries)

    @classmethod
    def of(cls, given: Any) -> Glossary:
        """A glossary, its file, or its entries."""
        if isinstance(given, cls):
            return given
        return cls(given) if isinstance(given, Mapping) else cls.open(given)

    def wanted(self, source: str) -> dict[str, tuple[str, ...]]:
        """The terms that stand in a source, with what may stand for them in its translation."""
        found: dict[str, tuple[str, ...]] = {}
        place = 0
        while place < len(source):
            term = self._at(source, place)
            if term is not None:
                found[term] = tuple(dict.fromkeys(form for one in self.entries[term] for form in (one, _capital(one))))
            place += len(term or " ")
        return found

    def _at(self, source: str, place: int) -> str | None:
        if joined(kind(source[place - 1 : place] if place else ""), kind(source[place])):
            return None
        for length in self._lengths:
            words = source[place : place + length]
            end = source[place + length : place + length + 1]
            if len(words) == length and not joined(kind(words[-1]), kind(end)):
                term = words if words in self.entries else words.lower()
                if term in self.entries and len(term) == length:
                    return term
        return None


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
