"""A piece of a large corpus cleaned and tokenised, in a process of its own; nothing here needs torch."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any

import numpy as np

from regard.text.clean import Report, Rules, clean
from regard.text.corpus import Pair
from regard.text.tokenizer import Tokenizers
from regard.training.preprocess import preprocess

Piece = tuple[list[Pair], np.ndarray]
"""Pairs, and Bool[N] which of them stood before."""
Made = tuple[dict[str, np.ndarray], Report]
"""The arrays of a TokenisedPairs, and what cleaning dropped."""


@dataclass(frozen=True)
class Work:
    """What is done to a corpus. tokenizers: their folder. usual: characters of a target for one of its source. tag: symbol
    in front of each source, "" for none."""

    tokenizers: str
    rules: Rules
    steps: tuple[str, ...]
    source: str
    target: str
    usual: float
    tag: str = ""


class Encoder:
    """Does a Work to pieces."""

    def __init__(self, work: Work) -> None:
        self.work, self.tokenizers = work, Tokenizers.open(work.tokenizers)

    def __call__(self, piece: Piece) -> Made:
        """The pairs that pass, as ids without specials; lines: where they stand in their file."""
        kept, report = cleaned(*piece, self.work)
        found: dict[str, np.ndarray] = {"lines": np.array([pair.line for pair in kept], dtype=np.int64)}
        texts = {"source": [pair.source for pair in kept], "target": [pair.target for pair in kept]}
        for side, tokenizer in (("source", self.tokenizers.source), ("target", self.tokenizers.target)):
            found[side], found[f"{side}_offsets"] = flat(tokenizer.encode_batch(texts[side]), tokenizer.vocab_size)
        return found, report


def cleaned(pairs: list[Pair], again: np.ndarray, work: Work) -> tuple[list[Pair], Report]:
    """Pairs preprocessed, cleaned and tagged; `again` says which stood before."""
    pairs = preprocess(pairs, work.steps, work.source, work.target)
    first = [pair for pair, seen in zip(pairs, again.tolist(), strict=True) if not seen]
    kept, report = clean(first, replace(work.rules, drop_duplicates=False), work.usual)
    report.total = len(pairs)
    report.dropped = []
    for pair, seen in zip(pairs, again.tolist(), strict=True):
        if seen:
            report.found("duplicate").add(pair.line)
    if work.tag:
        kept = [replace(pair, source=f"{work.tag} {pair.source}") for pair in kept]
    return kept, report


def flat(ids: list[list[int]], vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Ids end to end and their offsets Int[N + 1]."""
    lengths = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    kind = np.uint16 if vocab_size <= 1 << 16 else np.int32
    joined = np.fromiter((one for each in ids for one in each), dtype=kind, count=int(lengths.sum()))
    return joined, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])


_ENCODER: Any = None


def _begin(work: Work) -> None:
    global _ENCODER
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes are the parallel part
    _ENCODER = Encoder(work)


def _encode(piece: Piece) -> Made:
    return _ENCODER(piece)


def encode(pieces: Iterable[Piece], work: Work, workers: int) -> Iterator[Made]:
    """Pieces done, in order, by as many processes; few of them are in memory at a time."""
    if workers == 1:
        yield from map(Encoder(work), pieces)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin, (work,)) as pool:
        waiting: deque[Future[Made]] = deque()
        for piece in pieces:
            waiting.append(pool.submit(_encode, piece))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
