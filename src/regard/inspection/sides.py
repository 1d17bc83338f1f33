"""Tokens beside the text they stand for, so that nobody need show a vocabulary's spelling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from regard.decoding.wishes import lexicon_of
from regard.inspection.values import Side, Token
from regard.loaded import Loaded
from regard.text.tokenizer import Tokenizer
from regard.text.words import owners, word_spans

Span = tuple[int, int]


def side_of_text(loaded: Loaded, text: str, second: str | None = None) -> tuple[Side, list[int], list[int]]:
    """A text, or two as one with a line end between them, as the model reads it: its side, the ids and the segments."""
    tokenizer = loaded.tokenizer
    parts = [tokenizer.tokens(one) for one in (text, second) if one is not None]
    # Numbers below zero stand for the texts' own tokens while the loaded frames and cuts them as it does ids.
    marks = [[-1 - n - 2**30 * which for n in range(len(its.ids))] for which, its in enumerate(parts)]
    (framed, segments), over = loaded.frame(*marks)
    whole = text if second is None else f"{text}\n{second}"
    ids, offsets, at = [], [], 0
    for number in framed:
        if number >= 0:
            ids.append(number)
            offsets.append((at, at))
            continue
        which, place = divmod(-1 - number, 2**30)
        shift = which * (len(text) + 1)
        begin, end = parts[which].offsets[place]
        ids.append(parts[which].ids[place])
        offsets.append((begin + shift, end + shift))
        at = end + shift
    return _side(tokenizer, whole, ids, offsets, [number >= 0 for number in framed], over), ids, segments


def side_of_ids(tokenizer: Tokenizer, ids: Sequence[int], prompt: int = 0) -> Side:
    """Ids that a model wrote or read, with the text that they spell; bytes that are no character in hexadecimal."""
    lexicon, special = lexicon_of(tokenizer), _specials(tokenizer)
    marks = [number in special or number == tokenizer.unk for number in ids]
    pieces = [b"" if mark else lexicon.texts[number] for number, mark in zip(ids, marks)]
    text, spans = _spelled(b"".join(pieces))
    ends = list(accumulate(map(len, pieces)))
    lead = int(text.startswith(" "))
    offsets = []
    for piece, end in zip(pieces, ends):
        here = spans[end - 1][1] if end else 0
        first, last = (spans[end - len(piece)][0], here) if piece else (here, here)
        offsets.append((max(0, first - lead), max(0, last - lead)))
    return _side(tokenizer, text[lead:], ids, offsets, marks, False, prompt)


def _spelled(data: bytes) -> tuple[str, list[Span]]:
    """The text of bytes, and for each byte the characters of it that it is a part of."""
    text, spans, at = "", [], 0
    while at < len(data):
        width = next((n for n in (1, 2, 3, 4) if _is_character(data[at : at + n])), 0)
        new = data[at : at + width].decode("utf-8") if width else f"\\x{data[at]:02x}"
        spans += [(len(text), len(text) + len(new))] * max(width, 1)
        text += new
        at += max(width, 1)
    return text, spans


def _is_character(data: bytes) -> bool:
    try:
        return len(data.decode("utf-8")) == 1
    except UnicodeDecodeError:
        return False


def _side(
    tokenizer: Tokenizer,
    text: str,
    ids: Sequence[int],
    offsets: Sequence[Span],
    marks: Sequence[bool],
    truncated: bool,
    prompt: int = 0,
) -> Side:
    lexicon, spans = lexicon_of(tokenizer), word_spans(text)
    places, parts = grouped(offsets)
    words = owners(spans, places)
    special = _specials(tokenizer)
    tokens = [
        Token(
            id=number,
            piece=tokenizer.piece(number),
            start=place[0],
            end=place[1],
            word=-1 if mark else word,
            special=mark or number in special,
            part=part,
            bytes=lexicon.texts[number].hex() if number < len(lexicon.texts) and not mark else "",
        )
        for number, place, word, part, mark in zip(ids, places, words, parts, marks)
    ]
    return Side(text=text, tokens=tokens, words=spans, truncated=truncated, prompt=prompt)


def grouped(offsets: Sequence[Span]) -> tuple[list[Span], list[tuple[int, int] | None]]:
    """Ranges of characters, those that share some made one, and the number and count of each among those that do."""
    places, parts = list(offsets), [None] * len(offsets)
    found: list[tuple[int, int] | None] = list(parts)
    begin = 0
    while begin < len(places):
        start, end = places[begin]
        stop = begin + 1
        while stop < len(places) and start < end and places[stop][0] < places[stop][1] and places[stop][0] < end:
            end = max(end, places[stop][1])
            stop += 1
        if stop - begin > 1:
            places[begin:stop] = [(start, end)] * (stop - begin)
            found[begin:stop] = [(n, stop - begin) for n in range(stop - begin)]
        begin = stop
    return places, found


@lru_cache(maxsize=8)
def _specials(tokenizer: Tokenizer) -> frozenset[int]:
    numbers = (tokenizer.backend.token_to_id(name) for name in tokenizer.special_names)
    return frozenset(number for number in numbers if number is not None and number != tokenizer.unk)


def readable(tokenizer: Tokenizer, number: int) -> str:
    """What an id adds to a text, with its space; bytes that are no character in hexadecimal; "" for what is no text."""
    texts = lexicon_of(tokenizer).texts
    if number >= len(texts) or number in _specials(tokenizer) or number == tokenizer.unk:
        return ""
    return _spelled(texts[number])[0]


def image_side(rows: int, columns: int) -> Side:
    """The tokens of an image: itself, then its patches row by row."""
    names = ["image", *(f"{row + 1},{column + 1}" for row in range(rows) for column in range(columns))]
    tokens = [
        Token(id=n, piece=name, start=0, end=0, word=-1, special=n == 0, part=None, bytes="") for n, name in enumerate(names)
    ]
    return Side(text="", tokens=tokens, words=[])


VISIBLE = str.maketrans({" ": "␣", "\n": "⏎", "\r": "⏎", "\t": "⇥"})


def shown(side: Side) -> list[str]:
    """Each token as people can read it: its characters, spaces at its ends marked where it has nothing else, "字 2/3" for a
    part of a character, the vocabulary's name for what is no text."""
    found = []
    for token in side.tokens:
        text = side.text[token.start : token.end]
        text = text.strip() or text.translate(VISIBLE)
        if token.special or not text:
            text = token.piece if token.special or not token.bytes else "␣"
        found.append(text if token.part is None else f"{text} {token.part[0] + 1}/{token.part[1]}")
    return found


def picture_of(pixels: Tensor, settings: Mapping[str, Any]) -> str:
    """Prepared pixels Float[C H W] as the picture they were, a data: address of a PNG."""
    import base64
    import io

    from PIL import Image

    values = pixels.float().cpu()
    if settings.get("do_normalize", True) and settings.get("image_mean"):
        mean, std = (torch.tensor(settings[key]).view(-1, 1, 1) for key in ("image_mean", "image_std"))
        values = values * std + mean
    values = values / (settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 1.0)
    shown = values.round().clamp(0, 255).to(torch.uint8).permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(shown[:, :, 0] if shown.shape[2] == 1 else shown).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
