"""Lines of text files, plain or compressed, strict about what a line is and what UTF-8 is."""

from __future__ import annotations

import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import zstandard

from regard.errors import UserError

_MAGIC = {b"\x1f\x8b": "gz", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zst"}
_SUFFIX = {".gz": "gz", ".xz": "xz", ".zst": "zst"}
_BOM = b"\xef\xbb\xbf"
LONGEST = 16 << 20
"""Bytes that a line may have, so that a file without line ends, or a small one that unpacks to such, fills no memory."""


def read_lines(path: str | Path) -> Iterator[str]:
    r"""The lines of a UTF-8 file, without their ends. Plain, gzip, xz and zstd are told apart by content; only \n, \r\n and
    \r end a line, so U+2028, U+0085, VT, FF and U+001C stay inside; a byte order mark at the start is dropped. UserError
    names the file (and the line) when it is missing, cut off, misnamed or not UTF-8."""
    path = Path(path)
    number = 0
    for raw in _raw_lines(path):
        if number == 0:
            raw = _without_mark(raw, path)
        parts = raw.split(b"\r") if b"\r" in raw else (raw,)
        for part in parts:
            number += 1
            try:
                yield part.decode("utf-8")
            except UnicodeDecodeError as error:
                byte = part[error.start]
                raise UserError(
                    f"{path}:{number}: is not UTF-8 (byte 0x{byte:02X} at position {error.start + 1} of the line); "
                    "convert the file, for example with iconv -f latin1 -t utf-8"
                ) from None


def base_name(path: str | Path) -> str:
    """The file's name in lower case, without a suffix of compression."""
    name = Path(path).name.lower()
    for suffix in _SUFFIX:
        name = name.removesuffix(suffix)
    return name


def _raw_lines(path: Path) -> Iterator[bytes]:
    r"""Lines as bytes without \n or \r\n; a single \r is still inside."""
    try:
        with _opened(path) as stream:
            while raw := stream.readline(LONGEST + 1):
                if len(raw) > LONGEST:
                    raise UserError(f"{path}: has a line of more than {LONGEST:,} bytes; is it text?")
                raw = raw.removesuffix(b"\n")
                yield raw.removesuffix(b"\r")
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError, zstandard.ZstdError) as error:
        raise UserError(f"{path}: is damaged or cut off in the middle ({error}); fetch or make it again") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None


def _opened(path: Path) -> BinaryIO:
    with path.open("rb") as stream:
        start = stream.read(6)
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "plain")
    promised = _SUFFIX.get(path.suffix.lower())
    if promised and kind != promised:
        raise UserError(f"{path}: is named {path.suffix} but its content is {kind}; rename it, or fetch it again")
    if kind == "gz":
        return io.BufferedReader(gzip.open(path, "rb"))  # type: ignore[arg-type]
    if kind == "xz":
        return io.BufferedReader(lzma.open(path, "rb"))  # type: ignore[arg-type]
    if kind == "zst":
        return io.BufferedReader(_Zstd(path))
    return path.open("rb")


class _Zstd(io.RawIOBase):
    """A zstd file of one or more frames that notices a missing end (the library's reader takes it for the end)."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._frame = None
        self._ready, self._at = b"", 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while self._at == len(self._ready):
            chunk = self._file.read(1 << 10)  # which may unpack to 32 MB
            if not chunk:
                if self._frame is not None:
                    raise EOFError("the last frame has no end")
                return 0
            self._feed(chunk)
        size = min(len(buffer), len(self._ready) - self._at)
        buffer[:size] = self._ready[self._at : self._at + size]
        self._at += size
        return size

    def _feed(self, chunk: bytes) -> None:
        out = []
        while chunk:
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            out.append(self._frame.decompress(chunk))
            if not self._frame.eof:
                break
            chunk, self._frame = self._frame.unused_data, None
        self._ready, self._at = b"".join(out), 0

    def close(self) -> None:
        self._file.close()
        super().close()


def _without_mark(raw: bytes, path: Path) -> bytes:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UserError(f"{path}:1: looks like UTF-16; convert the file, for example with iconv -f utf-16 -t utf-8")
    return raw.removeprefix(_BOM)
