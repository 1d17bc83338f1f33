"""A bilingual grammar written for this project: endless sentences, each with exactly one right translation.

`regard demo` trains on it. A sentence is drawn as a value (`english.Clause`) and said in both languages. The split that a
sentence belongs to is read off a hash of its English text, so that splits never share a sentence, whatever the seed.
"""

from __future__ import annotations

import random
from hashlib import blake2b
from types import ModuleType
from typing import Literal

from regard.errors import UserError
from regard.text.corpus import Pair
from regard.text.grammar import chinese, english, french

NAMES: dict[str, ModuleType] = {"en-fr": french, "en-zh": chinese}
SPLITS = {"train": range(90), "valid": range(90, 95), "test": range(95, 100)}
Split = Literal["train", "valid", "test"]


def _grammar(pair: str) -> ModuleType:
    grammar = NAMES.get(pair.removeprefix("grammar-"))
    if grammar is None:
        raise UserError(f"no grammar for {pair!r}: there are {', '.join(NAMES)}")
    return grammar


def split_of(sentence: str) -> Split:
    """The split that an English sentence belongs to."""
    number = int.from_bytes(blake2b(sentence.encode(), digest_size=4).digest(), "big") % 100
    return next(name for name, numbers in SPLITS.items() if number in numbers)  # type: ignore[return-value]


def size(pair: str) -> int:
    """A lower bound of how many distinct English sentences the grammar of a pair ("en-fr", "en-zh") has."""
    return _grammar(pair).bound()


def sentences(pair: str, count: int, seed: int = 1, split: Split = "train") -> list[Pair]:
    """`count` sentences with their translations, the same for the same seed; "train", "valid" and "test" share none.

    Those of "valid" and "test" are distinct; "train" repeats short ones as often as they are drawn, as real text does.
    More than a fiftieth of the bound (`size`) is refused (UserError)."""
    grammar = _grammar(pair)
    if split not in SPLITS:
        raise UserError(f"no split {split!r}: there are {', '.join(SPLITS)}")
    if count > size(pair) // 50:
        raise UserError(f"{count} sentences asked of the grammar {pair}: it gives {size(pair) // 50} at most")
    rng = random.Random(f"{pair.removeprefix('grammar-')} {split} {seed}")
    found: list[Pair] = []
    seen: set[str] = set()
    while len(found) < count:
        clause = grammar.draw(rng)
        source = english.say(clause)
        if split_of(source) == split and (split == "train" or source not in seen):
            seen.add(source)
            found.append(Pair(source, grammar.say(clause), len(found) + 1))
    return found
