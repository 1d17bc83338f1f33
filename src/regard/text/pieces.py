"""What each id of a vocabulary adds to the text, and where in the text the ids of an encoding stand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from regard.text.bounds import highest

BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>\Z")
SPACE = "▁"
"""How SentencePiece spells a space inside pieces."""


def steps(part: dict[str, Any] | None, key: str) -> list[dict[str, Any]]:
    """The steps of a part of tokenizer.json; `key` names them where it is a sequence."""
    if part is None:
        return []
    return part[key] if part["type"] == "Sequence" else [part]


def piece_bytes(backend: Backend, file: dict[str, Any]) -> list[bytes] | None:
    """The bytes that each id adds to the text, where a decoder works id by id (byte-level, byte fallback, plain joining);
    None for any other."""
    decoders = steps(file["decoder"], "decoders")
    kinds = [step["type"] for step in decoders]
    rest = [kind for kind in kinds if kind != "Replace"]
    strips = [step for step in decoders if step["type"] == "Strip"]
    known = (["ByteLevel"], ["ByteFallback", "Fuse"], ["Fuse"])
    if [kind for kind in rest if kind != "Strip"] not in known or len(strips) > 1:
        return None
    if strips and (kinds[-1], strips[0]["content"], strips[0]["start"], strips[0]["stop"]) != ("Strip", " ", 1, 0):
        return None
    whole: dict[str, str] = {}
    inside: dict[str, str] = {}
    for step in decoders:
        if step["type"] == "Replace" and "String" in step["pattern"]:
            inside[step["pattern"]["String"]] = step["content"]
        elif step["type"] == "Replace":
            pattern = step["pattern"].get("Regex", "")
            if not (pattern.startswith(r"\A") and pattern.endswith(r"\z")):
                return None
            name = re.sub(r"\\x\{([0-9A-F]+)\}", lambda found: chr(int(found[1], 16)), pattern[2:-2])
            whole[name] = step["content"]
    added = {token["content"] for token in file["added_tokens"]}
    table = []
    for number in range(highest(file) + 1):
        name = backend.id_to_token(number)
        if name is not None and name not in added:
            for old, new in inside.items():
                name = name.replace(old, new)
        table.append(b"" if name is None else _bytes_of(name, rest[0], name in added, whole))
    return table


def strips_a_space(file: dict[str, Any]) -> bool:
    """Whether the decoder takes away one space in front."""
    return any(step["type"] == "Strip" for step in steps(file["decoder"], "decoders"))


def _bytes_of(name: str, decoder: str, added: bool, whole: dict[str, str]) -> bytes:
    if name in whole:
        return whole[name].encode("utf-8")
    if not added and decoder == "ByteLevel" and all(character in _BYTE_OF for character in name):
        return bytes(_BYTE_OF[character] for character in name)
    byte = BYTE_TOKEN.match(name) if decoder == "ByteFallback" else None
    return bytes([int(byte[1], 16)]) if byte and not added else name.encode("utf-8")


def _byte_table() -> dict[str, int]:
    """GPT-2's spelling of bytes: printable Latin-1 as itself, the others from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in printable]
    return {chr(value): value for value in printable} | {chr(256 + n): value for n, value in enumerate(others)}


_BYTE_OF = _byte_table()


def one_character_each(text: str, encoding: Encoding) -> list[tuple[int, int]]:
    """Offsets in which a run of byte tokens that stands for several characters is shared out among them."""
    offsets = list(encoding.offsets)
    start = 0
    while start < len(offsets):
        end = start
        while end < len(offsets) and offsets[end] == offsets[start] and BYTE_TOKEN.match(encoding.tokens[end]):
            end += 1
        first, last = offsets[start]
        if end - start > 1 and last - first > 1:
            owners = [n for n in range(first, last) for _ in text[n].encode("utf-8")]
            if len(owners) == end - start:
                offsets[start:end] = [(n, n + 1) for n in owners]
        start = max(end, start + 1)
    return offsets


def numbered(words: Sequence[int | None]) -> list[int]:
    """Word numbers from 0 in steps of one (an extra symbol starts the library's count anew)."""
    numbers: list[int] = []
    for place, word in enumerate(words):
        same = place > 0 and word is not None and word == words[place - 1]
        numbers.append((numbers[-1] if numbers else -1) + (not same))
    return numbers


def between_spaces(text: str, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Word numbers where the pipeline knows no words: a space begins the next one."""
    at = list(accumulate(int(character == " ") for character in text))
    return [at[start] for start, _ in offsets]
