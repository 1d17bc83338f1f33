"""Files written whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from regard.errors import UserError

_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def sync(path: Path) -> None:
    """Have the disk hold what was written to a file or folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_plain(path: Path, most: int = 64 << 20) -> bytes:
    """The content of an ordinary file of at most `most` bytes. OSError where it cannot be read; UserError, before anything
    is read, for a pipe or device (which may have no end) and for a file that is larger."""
    its = path.stat()
    if stat.S_ISDIR(its.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(its.st_mode):
        raise UserError(f"{path}: is a pipe or a device, not a file")
    if its.st_size > most:
        raise UserError(f"{path}: has {its.st_size:,} bytes; no such file needs more than {most:,}")
    return path.read_bytes()


def parsed(text: str) -> Any:
    """The value of JSON. ValueError: it is none, or has half a surrogate pair, which could be written nowhere."""
    found = json.loads(text)
    if _HALF.search(text):
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    return found


@contextmanager
def whole(path: Path) -> Iterator[BinaryIO]:
    """A file to write into that takes its name when all is written and on the disk: whoever looks sees the old content or
    all of the new. On an error nothing is left behind. A pipe or a device, such as /dev/null, is written to as it is:
    nothing may take its place."""
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with aside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def write_bytes(path: Path, data: bytes) -> None:
    """A file with this content, whole or not at all."""
    with whole(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """`write_bytes` in UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path | str, document: Any, items: bool = False) -> None:
    """One JSON document into a file, or to stdout for "-". items: it is a list, each item of which is one line."""
    if items:
        text = "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False) for item in document) + "\n]\n"
    else:
        text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        write_text(Path(path), text)
