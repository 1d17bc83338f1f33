"""The file model.bin of CTranslate2: named arrays in one binary file, read as its public specification says.

All numbers are little-endian. A text is a 16-bit length and that many bytes, the last of which is zero. The file is:

- its version (32 bits); the name (text) and the revision (32 bits) of the kind of model;
- the number of arrays; of each its name, 8 bits for the number of its dimensions, 32 bits for each of them, 8 bits for its
  type, 32 bits for its size in bytes, its bytes;
- the number of aliases; of each two texts: another name, and the name that it stands for.

Before version 4 there was the width of a number in place of its type, and the number of numbers in place of the size;
before version 3 there were no aliases.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from regard.errors import UserError

NAME = "model.bin"
VERSIONS = range(2, 7)
TYPES = (torch.float32, torch.int8, torch.int16, torch.int32, torch.float16, torch.bfloat16)
WIDTHS = {4: torch.float32, 2: torch.int16, 1: torch.int8}
"""Types by the width of a number, before version 4."""
QUANTIZED = (torch.int8, torch.int16)


@dataclass(frozen=True)
class Binary:
    """kind, revision: of the model. arrays: by name, as stored. aliases: other name -> name."""

    kind: str
    revision: int
    arrays: Mapping[str, Tensor]
    aliases: Mapping[str, str]


def read_binary(path: Path) -> Binary:
    """Read model.bin. UserError: it cannot be read, has another version, ends too early, or is no such file."""
    try:
        with path.open("rb") as file:
            return _Reader(file, path).all()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None


class _Reader:
    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file, self.path, self.left = file, path, path.stat().st_size

    def all(self) -> Binary:
        version = self.number("I")
        if version not in VERSIONS:
            raise UserError(f"{self.path}: version {version} is not known; regard reads {VERSIONS[0]} to {VERSIONS[-1]}")
        kind, revision = self.text(), self.number("I")
        arrays = dict(self.array(version) for _ in range(self.number("I")))
        aliases = {self.text(): self.text() for _ in range(self.number("I"))} if version >= 3 else {}
        if self.left:
            raise UserError(f"{self.path}: has {self.left} bytes after its end; it is damaged")
        lost = sorted(name for name in aliases.values() if name not in arrays)
        if lost:
            raise UserError(f"{self.path}: an alias names {lost[0]!r}, which is missing")
        return Binary(kind, revision, arrays, aliases)

    def bytes(self, count: int) -> bytes:
        if count > self.left:
            raise UserError(f"{self.path}: ends too early; it is damaged or no {NAME} of CTranslate2")
        self.left -= count
        return self.file.read(count)

    def number(self, form: str) -> int:
        return struct.unpack(f"<{form}", self.bytes(struct.calcsize(form)))[0]

    def text(self) -> str:
        raw = self.bytes(self.number("H"))
        try:
            found = raw.removesuffix(b"\0").decode("utf-8")
        except UnicodeDecodeError:
            raise UserError(f"{self.path}: a name is not UTF-8; it is damaged or no {NAME} of CTranslate2") from None
        if found and not found.isprintable():
            raise UserError(f"{self.path}: a name holds {found[:40]!a}; it is damaged or no {NAME} of CTranslate2")
        return found

    def array(self, version: int) -> tuple[str, Tensor]:
        name = self.text()
        shape = [self.number("I") for _ in range(self.number("B"))]
        kind, size = self.number("B"), self.number("I")
        known = dict(enumerate(TYPES)) if version >= 4 else WIDTHS
        if kind not in known:
            raise UserError(f"{self.path}: {name} has the unknown type {kind}")
        size *= 1 if version >= 4 else kind
        strides = math.prod(max(length, 1) for length in shape)  # also of an array without numbers, which torch computes
        if math.prod(shape) * known[kind].itemsize != size or strides > 2**48:
            raise UserError(f"{self.path}: {name} has {size} bytes, which do not fit its shape {'×'.join(map(str, shape))}")
        raw = bytearray(self.bytes(size))
        flat = torch.frombuffer(raw, dtype=known[kind]) if raw else torch.empty(0, dtype=known[kind])
        return name, flat.reshape(shape)


def dequantized(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The arrays with 8- and 16-bit weights as the numbers they stand for: divided by their scale (one for all, or one a
    row), which is left out."""
    found = {}
    for name, array in arrays.items():
        scale = arrays.get(f"{name}_scale")
        if scale is not None and array.dtype in QUANTIZED:
            scale = scale.float()
            found[name] = array.float() / (scale[:, None] if scale.dim() else scale)
        elif name.removesuffix("_scale") not in arrays or not name.endswith("weight_scale"):
            found[name] = array
    return found
