"""What `regard translate` does with a translator: lines, documents, and what it tells about them on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from regard.cli.streams import one_line
from regard.errors import UserError

LARGEST = 64 << 20
"""Bytes that a document may have."""
NAMED = 10
"""So many lines of a kind are named on stderr; further ones are counted."""
KINDS = {
    "shortened": "the text is longer than the model reads, its end was left out",
    "truncated": "the source is longer than the model reads, its end was left out",
    "unknown": "the source has words that the vocabulary lacks; the model cannot tell one such word from another",
    "cut": "the translation was cut by the length limit",
    "empty": "the translation is empty, the source is not",
    "unkept": "a phrase, term or part that was promised is not there as promised",
    "layout": "the translation would have changed the document, the source stands there",
}


@dataclass
class Report:
    """What should not go unnoticed: the first lines of each kind are named at once, all are counted at the end. what: a
    line or, of a document, a passage."""

    what: str = "line"
    lines: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, answer: Any) -> None:
        """Take note of a line's answer."""
        self.lines += 1
        for kind, found in (
            ("truncated", answer.truncated),
            ("unknown", answer.unknown > 0),
            ("cut", not answer.finished),
            ("unkept", bool(answer.unkept)),
            ("empty", not answer.text and bool(answer.source.strip())),
            ("layout", "layout" in answer.flags),
        ):
            if found:
                self.note(kind, self.lines)

    def note(self, kind: str, line: int) -> None:
        """Something of this kind is to be said of a line."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if self.counts[kind] <= NAMED:
            print(f"{self.what} {line}: {KINDS[kind]}", file=sys.stderr)

    def close(self) -> None:
        """Say how many there were."""
        for kind, count in self.counts.items():
            print(f"{count} of {self.lines} {self.what}s: {KINDS[kind]}", file=sys.stderr)


def lines(
    translator: Any,
    texts: Iterable[Sequence[str]],
    file: BinaryIO,
    jsonl: bool,
    split: Any,
    options: dict[str, Any],
    first: int = 0,
) -> None:
    """Translate lists of lines as they arrive, a line for each. split: "no", or "sentences" for lines of several. first: so
    many lines stood before."""
    from regard.documents import translate_long

    report, count = Report(lines=first), options.get("num_return") or 1
    if options.get("context"):
        from regard.decoding.context import Context

        options = options | {"context": Context(options["context"])}  # goes on from one list of lines to the next
    if split != "no" and count > 1:
        raise UserError("--n-best is for sentences, so it goes without --split sentences")
    for chunk in texts:
        if split == "no":
            answers: Sequence[Any] = translator.translate(chunk, details=True, first=report.lines, **options)
        else:
            answers = translate_long(translator, chunk, split=split, **options)
        for answer in answers:
            report.add(answer)
            for line in [_json(answer, report.lines)] if jsonl else _text(answer, report.lines, count):
                file.write(line.encode("utf-8", "backslashreplace") + b"\n")
        file.flush()
    report.close()


def document(translator: Any, text: str, name: str, file: BinaryIO, jsonl: bool, options: dict[str, Any]) -> None:
    """Translate a document of a format in place; with `jsonl` its passages, one JSON object a line."""
    from regard.documents import translate_document

    if (options.get("num_return") or 1) > 1:
        raise UserError("--n-best is for sentences, a document has one translation")
    found, report = translate_document(translator, text, name, **options), Report("passage")
    for passage in found.passages:
        report.add(passage)
        if jsonl:
            file.write(_json(passage, report.lines).encode("utf-8", "backslashreplace") + b"\n")
    if not jsonl:
        file.write(found.text.encode("utf-8", "backslashreplace"))
    file.flush()
    report.close()


def read_document(path: str | None) -> str:
    """The whole text of a file, or of stdin. UserError: it cannot be read, or is not UTF-8."""
    if path in (None, "-"):
        data = sys.stdin.buffer.read(LARGEST + 1)
    else:
        with Path(str(path)).open("rb") as file:
            data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise UserError(f"{path or 'stdin'}: has more than {LARGEST:,} bytes, and a document is read as a whole: cut it")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line, bad = data[: error.start].count(b"\n") + 1, data[error.start]
        raise UserError(f"{path or 'stdin'}, line {line}: byte {bad:02X} is not valid UTF-8") from None


def _text(answer: Any, number: int, count: int) -> Iterable[str]:
    if count == 1:
        return [one_line(answer.text)]
    return [
        f"{number} ||| {one_line(each.text)} ||| {each.log_prob:.6f} ||| {each.score:.6f}"
        for each in (answer, *answer.alternatives)
    ]


def _json(answer: Any, number: int) -> str:
    return json.dumps({"line": number} | answer.json(), ensure_ascii=False)
