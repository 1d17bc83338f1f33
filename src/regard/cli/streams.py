"""Text in and text out, for all verbs that read lines: as they arrive, strictly UTF-8, answers in order."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import UserError
from regard.files import whole, write_json
from regard.text.lines import LONGEST

WINDOW = 2048
"""Most lines that are read before they are answered."""


def chunks(text: Sequence[str] | None, path: str | None, asked: str) -> Iterator[list[str]]:
    """Lists of texts: the arguments, a file's lines, or as many lines of stdin as are there. asked: what to type, for a
    terminal. UserError if arguments and a file are both given."""
    if text and path:
        raise UserError("give either texts or --input FILE, not both")
    return _chunks(text, path, asked)


def _chunks(text: Sequence[str] | None, path: str | None, asked: str) -> Iterator[list[str]]:
    if text:
        yield [argument(each) for each in text]
    elif path is not None and path != "-":
        from regard.text.corpus import read_lines

        lines = iter(read_lines(Path(path)))
        while chunk := list(islice(lines, WINDOW)):
            yield chunk
    else:
        if sys.stdin.isatty():
            print(f"type {asked}; Ctrl-D ends", file=sys.stderr)
        yield from lines_of(sys.stdin.buffer, "stdin")


def argument(text: str) -> str:
    """The argument as UTF-8, whatever the locale made of its bytes."""
    try:
        return os.fsencode(text).decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"the text {text!a} is not valid UTF-8") from None
    except UnicodeEncodeError:  # a character beyond the locale's, so it was never bytes of the locale
        return text


def lines_of(stream: BinaryIO, name: str) -> Iterator[list[str]]:
    r"""The lines of a UTF-8 stream as they arrive, in lists of those that are there, at most WINDOW. Only \n, \r\n and \r
    end a line; a mark at the start of the stream (BOM) is dropped. UserError names the line of bad UTF-8."""
    rest, number, after_cr, started = b"", 0, False, False
    read = getattr(stream, "read1", stream.read)
    while data := read(1 << 18):
        if after_cr and data.startswith(b"\n"):
            data = data[1:]
        after_cr = data.endswith(b"\r") if data else False
        parts = re.split(b"\r\n|\n|\r", rest + data) if data else [rest]
        rest = parts.pop()
        if len(rest) > LONGEST:
            raise UserError(f"{name}, line {number + len(parts) + 1}: has more than {LONGEST:,} bytes; is it text?")
        if parts and not started:
            parts[0], started = parts[0].removeprefix(b"\xef\xbb\xbf"), True
        for at in range(0, len(parts), WINDOW):
            chunk = parts[at : at + WINDOW]
            yield [_decoded(line, name, number + n) for n, line in enumerate(chunk, 1)]
            number += len(chunk)
    if rest and (started or rest != b"\xef\xbb\xbf"):
        yield [_decoded(rest if started else rest.removeprefix(b"\xef\xbb\xbf"), name, number + 1)]


def _decoded(line: bytes, name: str, number: int) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        bad = line[error.start]
        raise UserError(f"{name}, line {number}: byte {bad:02X} at place {error.start + 1} is not valid UTF-8") from None


@contextmanager
def out(path: str | None) -> Iterator[BinaryIO]:
    """Stdout, or a file that takes its name when all is written."""
    if path is None or path == "-":
        yield sys.stdout.buffer
        return
    with whole(Path(path)) as file:
        yield file


def one_line(text: str) -> str:
    """The text with its line ends as spaces."""
    return re.sub(r"[\r\n]+", " ", text)


class Writer:
    """Answers as they come: lines of text, one JSON object a line, or one JSON document at the end."""

    def __init__(self, file: BinaryIO, jsonl: bool = False, document: str | None = None) -> None:
        self.file, self.jsonl, self.document = file, jsonl, document
        self.count = 0
        self._kept: list[Any] = []

    def answers(self, found: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Take answers, each as a line of text and as JSON types."""
        for text, record in found:
            self.count += 1
            if self.document is not None:
                self._kept.append({"line": self.count} | record)
            if self.document != "-":
                self.line(json.dumps({"line": self.count} | record, ensure_ascii=False) if self.jsonl else one_line(text))
        self.file.flush()

    def line(self, text: str) -> None:
        """One line of output."""
        self.file.write(text.encode("utf-8", "backslashreplace") + b"\n")

    def piece(self, text: str) -> None:
        """A piece of a text, shown at once."""
        self.file.write(text.encode("utf-8", "backslashreplace"))
        self.file.flush()

    def close(self, name: str) -> None:
        """Write the document, if there is to be one, with the answers under `name`."""
        if self.document is not None:
            write_json(self.document, {name: self._kept})


@contextmanager
def heard(name: str, level: int) -> Iterator[None]:
    """Hear of one logger's messages those of a level and above alone, within the block."""
    log = logging.getLogger(name)
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)
