"""Checking and cleaning of parallel text: what was found or dropped, why, and in which lines."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from regard.errors import UserError
from regard.text.corpus import Pair

EXAMPLES = 10
"""How many line numbers of each kind a report shows."""

_SEPARATORS = frozenset("\u000b\u000c\u001c\u001d\u001e\u0085\u2028\u2029")


@dataclass(frozen=True)
class Rules:
    """Which pairs are faulty; None or False turns a rule off.

    drop_empty: a side with nothing but white space. drop_copies: both sides equal, apart from white space at their ends.
    drop_duplicates: the pair stood before. max_words, max_characters: the longest allowed side (words stand between white
    space). max_ratio: how many times longer one side may be than the other in characters, measured against what is usual
    (the median) in this corpus, so that Chinese beside English is no fault.
    """

    drop_empty: bool = True
    drop_copies: bool = True
    drop_duplicates: bool = True
    max_words: int | None = 250
    max_characters: int | None = 2000
    max_ratio: float | None = 9.0

    def __post_init__(self) -> None:
        for name, least in (("max_words", 1), ("max_characters", 1), ("max_ratio", 1.0)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise UserError(f"{name}={value} must be at least {least}, or nothing to turn the rule off")


@dataclass
class Found:
    """How many pairs a rule or a remark applies to, and the lines of the first ones."""

    count: int = 0
    lines: list[int] = field(default_factory=list)

    def add(self, line: int) -> None:
        """Count one more pair."""
        self.count += 1
        if len(self.lines) < EXAMPLES:
            self.lines.append(line)

    def merge(self, other: Found) -> None:
        """Count those of a later part of the corpus too."""
        self.count += other.count
        self.lines = [*self.lines, *other.lines][:EXAMPLES]


@dataclass
class Report:
    """Of `total` pairs, `kept` pass. `rules` and `remarks`: what was found; remarks never cost a pair its place. `dropped`:
    line and rule of every pair that does not pass (in a check: the first rule it breaks)."""

    total: int
    kept: int
    rules: dict[str, Found]
    remarks: dict[str, Found]
    dropped: list[tuple[int, str]]
    verb: str = "dropped"

    def lines(self) -> list[str]:
        """The report for a terminal."""
        head = f"{self.total:,} pairs, {self.kept:,} kept" if self.verb == "dropped" else f"{self.total:,} pairs"
        if self.verb != "dropped":
            head += f", {self.total - self.kept:,} with faults"
        told = [head]
        for name, found in self.rules.items():
            told.append(f"{self.verb} {found.count:,} {_WORDS[name]}: {_line_numbers(found)}")
        told += [f"note: {found.count:,} {_WORDS[name]}: {_line_numbers(found)}" for name, found in self.remarks.items()]
        return told

    def found(self, name: str) -> Found:
        """What a rule applies to."""
        return self.rules.setdefault(name, Found())

    def json(self) -> dict[str, Any]:
        """The report as one document of plain values."""
        return {
            "total": self.total,
            "kept": self.kept,
            "rules": {name: asdict(found) for name, found in self.rules.items()},
            "remarks": {name: asdict(found) for name, found in self.remarks.items()},
        }


_WORDS = {
    "empty": "with an empty side",
    "copy": "whose target is a copy of the source",
    "duplicate": "that repeat an earlier pair",
    "max_words": "with too many words",
    "max_characters": "with too many characters",
    "max_ratio": "of too different lengths",
    "damaged": "with a replacement or NUL character (text was damaged before)",
    "separators": "with a line or page separator inside (U+2028, U+0085, FF …; they end no line here)",
    "not_nfc": "not in NFC (composed characters)",
    "outer_spaces": "with white space at an end",
}


def check(pairs: Iterable[Pair], rules: Rules | None = None) -> Report:
    """Apply all rules to all pairs and drop none: a pair counts under every rule that it breaks."""
    pairs = list(pairs)
    report = Report(len(pairs), len(pairs), {}, {}, [], verb="found")
    for pair, broken in _examined(pairs, rules or Rules(), report):
        for name in broken:
            report.rules.setdefault(name, Found()).add(pair.line)
        if broken:
            report.dropped.append((pair.line, broken[0]))
    report.kept -= len(report.dropped)
    return report


def clean(pairs: Iterable[Pair], rules: Rules | None = None, usual: float | None = None) -> tuple[list[Pair], Report]:
    """The pairs that pass, unchanged and in order, and the report: a dropped pair counts under the first rule it breaks.
    usual: how many characters a target has for one of its source; None: the median of these pairs."""
    pairs = list(pairs)
    report = Report(len(pairs), 0, {}, {}, [])
    kept = []
    for pair, broken in _examined(pairs, rules or Rules(), report, usual):
        if broken:
            report.rules.setdefault(broken[0], Found()).add(pair.line)
            report.dropped.append((pair.line, broken[0]))
        else:
            kept.append(pair)
    report.kept = len(kept)
    return kept, report


def _examined(
    pairs: Sequence[Pair], rules: Rules, report: Report, usual: float | None = None
) -> Iterable[tuple[Pair, list[str]]]:
    """Each pair with the rules it breaks; remarks go into the report."""
    if usual is None:
        usual = median([len(p.target) / len(p.source) for p in pairs if p.source and p.target] or [1.0])
    seen: set[tuple[str, str]] = set()
    for pair in pairs:
        source, target = pair.source.strip(), pair.target.strip()
        key = (source, target)
        broken = []
        if rules.drop_empty and not (source and target):
            broken.append("empty")
        if rules.drop_copies and source and source == target:
            broken.append("copy")
        if rules.drop_duplicates and (source or target) and key in seen:
            broken.append("duplicate")
        if rules.max_words is not None and max(len(source.split()), len(target.split())) > rules.max_words:
            broken.append("max_words")
        if rules.max_characters is not None and max(len(source), len(target)) > rules.max_characters:
            broken.append("max_characters")
        if rules.max_ratio is not None and source and target:
            ratio = len(target) / len(source) / usual
            if max(ratio, 1 / ratio) > rules.max_ratio:
                broken.append("max_ratio")
        seen.add(key)
        for name, applies in _REMARKS.items():
            if applies(pair.source) or applies(pair.target):
                report.remarks.setdefault(name, Found()).add(pair.line)
        yield pair, broken


_REMARKS: dict[str, Callable[[str], bool]] = {
    "damaged": lambda text: "\ufffd" in text or "\0" in text,
    "separators": lambda text: not text.isprintable() and not _SEPARATORS.isdisjoint(text),
    "not_nfc": lambda text: not text.isascii() and not unicodedata.is_normalized("NFC", text),
    "outer_spaces": lambda text: text != text.strip(),
}


def _line_numbers(found: Found) -> str:
    numbers = ", ".join(map(str, found.lines))
    more = found.count - len(found.lines)
    return f"line{'s' if found.count > 1 else ''} {numbers}" + (f" and {more:,} more" if more else "")
