"""Valid files made bad: bytes flipped, cut and doubled, values of JSON replaced by the worst that one could think of."""

from __future__ import annotations

import contextlib
import copy
import gzip
import json
import lzma
import random
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zstandard

WORST: list[Any] = [
    None, True, False, 0, -1, 1, 2, 7, 10**6, 10**9, 2**31, 2**63, 10**40, -(10**12), 0.0, -0.5, 1e-320, 1e300, float("nan"),
    float("inf"), "", "x", "\x00", "../../passwd", "/dev/zero", "\ud800", "a\nb\x1b[31m", "🙂" * 3,
    "a" * 5000,
    "relu", "BertModel", [], {}, [[]], [None], {"": None}, {"part": "Stack"}, ["a", 1], [0] * 300,
    {"type": "Sequence"}, [[0, 1]] * 40,
]  # fmt: skip
TOKENS = [b"", b"\x00", b"\xff\xfe", b"\n", b"\r", b"\t", b"{", b"}" * 9, b"[" * 3000, b"99999999999999999999", b"-1",
          b"1e999", b"NaN", b"null", b"&a [*a, *a]", b"<<: *a", b"!!python/object/apply:os.system"]  # fmt: skip
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".xz": lzma.decompress,
    ".zst": lambda data: zstandard.ZstdDecompressor().decompress(data, max_output_size=1 << 20),
}
PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstandard.compress}


def bent(data: bytes, draw: random.Random) -> bytes:
    """Bytes with something wrong."""
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at = draw.randrange(len(found) + 1)
        kind = draw.randrange(6)
        if kind == 0 and found:
            found[min(at, len(found) - 1)] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del found[at : at + draw.choice((1, 2, 8, 64, len(found)))]
        elif kind == 2:
            found[at:at] = draw.choice(TOKENS)
        elif kind == 3:
            found[at:at] = found[at : at + draw.choice((1, 8, 64))] * draw.choice((1, 2, 50))
        elif kind == 4:
            found[at : at + 8] = draw.choice((0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)).to_bytes(8, "little")
        else:
            found[at : at + 1] = bytes([draw.randrange(256)])
    return bytes(found)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key in a JSON document."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def worse(document: Any, draw: random.Random) -> Any:
    """A JSON document with a few values replaced, doubled, moved or gone."""
    document = copy.deepcopy(document)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        every = list(places(document))
        if not every:
            return draw.choice(WORST)
        inside, key = draw.choice(every)
        kind = draw.randrange(8)
        if kind < 4:
            inside[key] = copy.deepcopy(draw.choice(WORST))
        elif kind == 4:
            del inside[key]
        elif kind == 5:
            other, its = draw.choice(every)
            with contextlib.suppress(LookupError):
                inside[key] = copy.deepcopy(other[its])
        elif kind == 6 and isinstance(inside, dict):
            inside[draw.choice(("x", "", "part", "type", "model_type", str(key) * 2))] = inside.pop(key)
        elif isinstance(inside[key], (int, float)) and not isinstance(inside[key], bool):
            inside[key] = inside[key] * draw.choice((-1, 2, 1000, 10**9, 0.5))
        else:
            inside[key] = [copy.deepcopy(inside[key])] * draw.choice((0, 1, 2, 100))
    return document


def value_of(name: str, data: bytes) -> Any:
    """What can be changed in a file: the value of JSON or of the head of safetensors, the bytes in a packed file; None where
    there is nothing of the kind, or it is damaged."""
    with contextlib.suppress(ValueError, RecursionError, EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError):
        if name.endswith(".json"):
            return json.loads(data)
        if name.endswith(".safetensors"):
            return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        if Path(name).suffix in UNPACK:
            return UNPACK[Path(name).suffix](data)
    return None


def file_of(name: str, value: Any, data: bytes) -> bytes:
    """The file with another such value in the place of its own."""
    if isinstance(value, bytes):
        return PACK[Path(name).suffix](value)
    text = json.dumps(value).encode("utf-8", "surrogatepass")
    if name.endswith(".json"):
        return text
    return len(text).to_bytes(8, "little") + text + data[8 + int.from_bytes(data[:8], "little") :]


def changed(name: str, data: bytes, draw: random.Random) -> bytes:
    """The content of a file, changed as becomes its kind."""
    value = value_of(name, data) if draw.random() < 0.8 else None
    if value is None:
        return bent(data, draw)
    with contextlib.suppress(RecursionError):
        return file_of(name, bent(value, draw) if isinstance(value, bytes) else worse(value, draw), data)
    return bent(data, draw)
