"""What ids and phrases look like in the text: bytes of each id, and where words end, whatever the script."""

from __future__ import annotations

import unicodedata
from bisect import bisect_left, bisect_right
from functools import cached_property, lru_cache
from itertools import accumulate

from regard.text.pieces import BYTE_TOKEN
from regard.text.pieces import SPACE as MARK
from regard.text.tokenizer import Tokenizer

OUTSIDE, SPACED, UNSPACED = 0, 1, 2
"""Kinds of characters: none of a word; of a word in a script that puts spaces between words; of one that does not."""

NARROW, SPACE, WIDE = 0, 1, 2
"""Before a word: nothing is missing; nothing, and no further space may stand there; a space is missing."""

_UNSPACED = (
    (0x0E00, 0x0EFF),
    (0x1000, 0x109F),
    (0x1780, 0x17FF),
    (0x2E80, 0x2FDF),
    (0x3005, 0x3007),
    (0x3040, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)
"""Thai and Lao, Myanmar, Khmer, Chinese characters, kana."""


_BEFORE_WORDS = frozenset("'’\"-‐‑–—/")


@lru_cache(4096)
def kind(character: str) -> int:
    """OUTSIDE, SPACED or UNSPACED; nothing at all is OUTSIDE."""
    if not character or not (character == "_" or unicodedata.category(character)[0] in "LMN"):
        return OUTSIDE
    code = ord(character)
    return UNSPACED if any(first <= code <= last for first, last in _UNSPACED) else SPACED


def first_kind(text: bytes) -> int:
    """Of its first character; half of one counts as part of a word."""
    return kind(text[:4].decode("utf-8", "ignore")[:1]) if text and (text[0] < 0x80 or text[0] >= 0xC0) else SPACED


def last_kind(text: bytes) -> int:
    """Of its last character; half of one counts as part of a word."""
    start = len(text) - 1
    while start > 0 and len(text) - start < 4 and 0x80 <= text[start] < 0xC0:
        start -= 1
    whole = text[start:].decode("utf-8", "ignore")
    return kind(whole[-1:]) if whole or not text else SPACED


def opens(text: bytes) -> bool:
    """Whether a word may follow without a space: after a space, an opening bracket or quotation mark, a dash …."""
    last = text[-4:].decode("utf-8", "ignore")[-1:]
    return last.isspace() or last in _BEFORE_WORDS or unicodedata.category(last or " ") in ("Ps", "Pi")


def joined(before: int, after: int) -> bool:
    """Whether characters of these kinds, side by side, are of one word. Scripts without spaces have no word boundaries that
    could be seen, so nothing is joined there."""
    return before == SPACED and after == SPACED


def occurs(phrase: str, text: str) -> bool:
    """Whether a phrase stands in a text, as whole words."""
    return bool(places(phrase, text))


def places(phrase: str, text: str) -> list[int]:
    """Where a phrase stands in a text, as whole words: the numbers of the characters it begins with."""
    found, start = [], text.find(phrase) if phrase else -1
    while start >= 0:
        end = start + len(phrase)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (joined(kind(before), kind(phrase[0])) or joined(kind(phrase[-1]), kind(after))):
            found.append(start)
        start = text.find(phrase, start + 1)
    return found


class Lexicon:
    """The bytes that each id of a vocabulary adds to a text, and ways to find ids by them."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.texts = _texts(tokenizer)
        self.order = sorted(range(len(self.texts)), key=lambda number: self.texts[number])
        self._endings: dict[int, tuple[int, int]] = {}
        self._keys = [self.texts[number] for number in self.order]
        self._touching: dict[bytes, frozenset[int]] = {}
        self._going_on: dict[bytes, frozenset[int]] = {}
        self._shapes: dict[int, tuple[bool, int, int]] = {}

    def starting(self, start: bytes) -> list[int]:
        """Ids whose text begins so."""
        low = bisect_left(self._keys, start)
        high = bisect_left(self._keys, start + b"\xff\xff")
        return self.order[low:high]

    def ending(self, number: int) -> tuple[int, int]:
        """The kind of the last character of an id, and which gap it leaves before a word."""
        found = self._endings.get(number)
        if found is None:
            text = self.texts[number]
            gap = SPACE if text.endswith(b" ") else NARROW if opens(text) else WIDE
            found = self._endings[number] = (last_kind(text), gap)
        return found

    def exact(self, text: bytes) -> list[int]:
        """Ids whose text is just this."""
        return self.order[bisect_left(self._keys, text) : bisect_right(self._keys, text)]

    def holding(self, part: bytes) -> list[int]:
        """Ids whose text holds this."""
        joined, ends = self._joined
        found: list[int] = []
        at = joined.find(part)
        while 0 <= at < len(joined):
            number = bisect_right(ends, at)
            inside = at + len(part) <= ends[number]
            if inside and (not found or found[-1] != number):
                found.append(number)
            at = joined.find(part, at + 1)
        return found

    def touching(self, body: bytes) -> frozenset[int]:
        """Ids after which some of this text may stand, if none did before: those that hold it, or end with its beginning,
        where a word may begin."""
        found = self._touching.get(body)
        if found is None:
            keys, numbers = self._word_starts if first_kind(body) == SPACED else self._all_starts
            spans = [(bisect_left(keys, body[:n]), bisect_right(keys, body[:n])) for n in range(1, len(body))]
            spans.append((bisect_left(keys, body), bisect_left(keys, body + b"\xff\xff")))
            found = self._touching[body] = frozenset(n for low, high in spans for n in numbers[low:high])
        return found

    def going_on(self, rest: bytes) -> frozenset[int]:
        """Ids that write on where this text must follow: its beginnings, and what begins with it."""
        found = self._going_on.get(rest)
        if found is None:
            inside = [number for size in range(1, len(rest)) for number in self.exact(rest[:size])]
            found = self._going_on[rest] = frozenset([*inside, *self.starting(rest)])
        return found

    def shape(self, number: int) -> tuple[bool, int, int]:
        """Whether an id, after a letter, goes on with its word; then as `ending`."""
        found = self._shapes.get(number)
        if found is None:
            found = self._shapes[number] = (first_kind(self.texts[number]) == SPACED, *self.ending(number))
        return found

    @cached_property
    def classes(self) -> list[int]:
        """A number for each id: 0 if it adds nothing to a text, else 1 + its gap (see `ending`), and 3 more if, after a
        letter, it goes on with its word."""
        shapes = (self.shape(number) if text else None for number, text in enumerate(self.texts))
        return [0 if shape is None else 1 + shape[2] + 3 * shape[0] for shape in shapes]

    @cached_property
    def _word_starts(self) -> tuple[list[bytes], list[int]]:
        """The ends of all ids from where a word in a script with spaces may begin, in order, and whose they are."""
        found = [
            (text[at:], number)
            for number, text in enumerate(self.texts)
            for at in range(len(text))
            if at == 0 or not joined(last_kind(text[:at]), SPACED)
        ]
        return _columns(found)

    @cached_property
    def _all_starts(self) -> tuple[list[bytes], list[int]]:
        """The ends of all ids from each of their bytes, in order, and whose they are."""
        return _columns([(text[at:], number) for number, text in enumerate(self.texts) for at in range(len(text))])

    @cached_property
    def _joined(self) -> tuple[bytes, list[int]]:
        """The texts of all ids end to end, and where each ends."""
        return b"".join(self.texts), list(accumulate(map(len, self.texts)))

    @cached_property
    def silent(self) -> frozenset[int]:
        """Ids that add nothing to a text."""
        return frozenset(number for number, text in enumerate(self.texts) if not text)

    @cached_property
    def outside(self) -> list[int]:
        """Ids that, after a letter, begin something else than the rest of its word."""
        return [number for number, text in enumerate(self.texts) if text and first_kind(text) != SPACED]

    @cached_property
    def inside(self) -> bool:
        """Whether any id goes on with a word: not in a vocabulary of whole words."""
        return any(text and first_kind(text) == SPACED for text in self.texts)

    def spelled(self, ids: list[int]) -> bytes:
        """The bytes of ids, one after the other."""
        return b"".join(self.texts[number] for number in ids)

    def ways(self, phrase: str) -> tuple[list[int], list[int]]:
        """Ids that write the phrase after a word (a space in front), and right after a bracket or quotation mark. Empty
        where the vocabulary cannot."""
        normal, found = self.tokenizer.normalize(phrase).strip(), []
        for before, wanted in ((" ", " "), ("(", "")):
            body, ids = (wanted + normal).encode(), self.tokenizer.encode(before + normal)
            ids = self._after(ids, body)
            if not ids and not before.strip():
                ids = self._after(self.tokenizer.encode(normal), body)
            found.append(ids)
        marked, bare = found
        if not bare:
            bare = self._after(self.tokenizer.encode(normal), normal.encode())
        return marked, bare

    def _after(self, ids: list[int], body: bytes) -> list[int]:
        """The last ids, if they spell just this."""
        for start in range(len(ids)):
            if self.spelled(ids[start:]) == body and self.tokenizer.unk not in ids[start:]:
                return ids[start:]
        return []


def _columns(pairs: list[tuple[bytes, int]]) -> tuple[list[bytes], list[int]]:
    """Pairs in order, the first ones and the second ones apart."""
    pairs.sort()
    return [text for text, _ in pairs], [number for _, number in pairs]


def _texts(tokenizer: Tokenizer) -> list[bytes]:
    silent = {tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.mask}
    pieces = tokenizer._pieces
    if pieces is not None:
        return [b"" if number in silent else text for number, text in enumerate(pieces)]
    names = [tokenizer.piece(number) for number in range(tokenizer.vocab_size)]
    parts = any(name.startswith("##") for name in names)
    ends = any(name.endswith("</w>") for name in names)
    return [b"" if number in silent else _text(name, parts, ends) for number, name in enumerate(names)]


def _text(name: str, parts: bool, ends: bool) -> bytes:
    """What a piece adds to the text: WordPiece marks what goes on, SentencePiece what begins, older BPE what ends a word."""
    byte = BYTE_TOKEN.match(name)
    if byte:
        return bytes([int(byte[1], 16)])
    if parts:
        return name[2:].encode() if name.startswith("##") else (" " + name).encode()
    if ends:
        return name.replace("</w>", " ").encode()
    return name.replace(MARK, " ").encode()
