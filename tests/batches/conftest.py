"""A small tokenizer with the interface of regard.text.tokenizer: a word is an id."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest


@dataclass(frozen=True)
class Line:
    source: str
    target: str
    line: int


@dataclass
class Words:
    """Ids of whole words; with a seed some words become two ids, as BPE-dropout does."""

    vocab_size: int = 4000
    hash: str = "words"
    dropout: float = 0.3
    pad: int = 0
    unk: int = 1
    bos: int = 2
    eos: int = 3
    calls: list[int] = field(default_factory=list)

    def _id(self, word: str) -> int:
        return 4 + zlib.crc32(word.encode()) % (self.vocab_size - 4)

    def encode_batch(self, texts: Sequence[str], sample: int | None = None) -> list[list[int]]:
        self.calls.append(len(texts))
        draw = random.Random(sample)
        return [
            [
                self._id(part)
                for word in text.split()
                for part in ((word,) if sample is None or draw.random() >= self.dropout else (word[:1], word[1:] + "#"))
            ]
            for text in texts
        ]


@dataclass
class Both:
    source: Words = field(default_factory=Words)
    target: Words = field(default_factory=Words)
    shared: bool = False


@pytest.fixture
def words() -> Both:
    return Both()


@pytest.fixture
def numbered() -> Callable[[int], list[Line]]:
    """Pairs 1 … count of unequal lengths, each line with a word of its own."""

    def make(count: int) -> list[Line]:
        return [Line(f"s{i} " + "a " * (i % 5), f"t{i} " + "b " * (i * 7 % 4), i) for i in range(1, count + 1)]

    return make
