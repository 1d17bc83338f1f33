"""Single texts as examples: cut in pieces, packed into rows, or one long text cut in blocks anew each epoch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from regard.batches.data import Arrays, TokenisedPairs

Ids = Sequence[int] | np.ndarray


def pieces(texts: Sequence[Sequence[int]], length: int) -> tuple[list[Sequence[int]], list[int]]:
    """Texts longer than `length` tokens cut in pieces of at most so many; with each piece the number of its text."""
    if length < 1:
        raise ValueError(f"pieces of {length} tokens")
    found, owners = [], []
    for number, ids in enumerate(texts):
        for at in range(0, len(ids), length):
            found.append(ids[at : at + length])
            owners.append(number)
    return found, owners


def packed(documents: Sequence[Sequence[int]], room: int, spare: int = 0) -> list[list[int]]:
    """Numbers of documents that share a row of `room` columns, each at least one token long: the longest first, each into
    the fullest row that has room for it, so that few columns stay empty. spare: tokens of each document that take no
    column. ValueError for a document that fits no row."""
    rows: list[list[int]] = []
    by_room: list[list[int]] = [[] for _ in range(room + 1)]  # rows by the columns that they still have
    for number in sorted(range(len(documents)), key=lambda i: -len(documents[i])):
        need = max(len(documents[number]) - spare, 1)
        if need > room:
            raise ValueError(f"document {number} needs {need} columns of {room}")
        left = next((left for left in range(need, room + 1) if by_room[left]), None)
        if left is None:
            rows.append([])
            row, left = len(rows) - 1, room
        else:
            row = by_room[left].pop()
        rows[row].append(number)
        by_room[left - need].append(row)
    return [sorted(row) for row in rows]


def rows_of(
    documents: Sequence[Sequence[int]], lines: Sequence[int], room: int, spare: int = 0, name: str = "corpus"
) -> TokenisedPairs:
    """Documents packed into rows: an example's source is its documents end to end, its target their lengths. lines: where
    each document began; a row has the line of its first."""
    rows = packed(documents, room, spare)
    sources = [[token for number in row for token in documents[number]] for row in rows]
    lengths = [[len(documents[number]) for number in row] for row in rows]
    return TokenisedPairs.from_ids(sources, lengths, [lines[row[0]] for row in rows], name)


class _Cut(TokenisedPairs):
    """Stretches of one array of ids, overlapping where they like."""

    def __init__(self, ids: np.ndarray, starts: np.ndarray, length: int, key: str, name: str) -> None:
        nothing = np.zeros(0, dtype=np.int32)
        none = np.zeros(len(starts) + 1, dtype=np.int64)
        offsets = np.append(starts, starts[-1] + length)
        arrays: Arrays = {"source": ids, "source_offsets": offsets, "target": nothing, "target_offsets": none}
        arrays["lines"] = starts
        super().__init__(arrays, key, name)
        self.source_lengths = np.full(len(starts), length, dtype=np.int64)

    def pair(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids of stretch i, and nothing."""
        at = int(self.source_offsets[i])
        return self.source[at : at + int(self.source_lengths[i])], self.target


class Blocks:
    """One long text as examples of `length` tokens and the one that follows: a language model predicts each from those
    before it in the block.

    anywhere: each epoch's blocks begin at places drawn anew, as many as fit side by side (Karpathy's nanoGPT draws so
    too). Otherwise they stand side by side, and each epoch shifts them all by a distance drawn anew, so that not always
    the same tokens begin a block. `plain` is not shifted: it reads each token once. All draws come from `seed` and the
    epoch's number. ValueError for a text shorter than a block.
    """

    def __init__(self, ids: Ids, length: int, seed: int = 1, anywhere: bool = False, name: str = "corpus") -> None:
        self.ids = np.asarray(ids, dtype=np.int32)
        self.length, self.seed, self.anywhere, self.name = length, seed & (1 << 64) - 1, anywhere, name
        count = (len(self.ids) - 1) // length
        if count < 1:
            raise ValueError(f"{name}: {len(self.ids)} tokens, fewer than a block of {length} and the one after it")
        digest = hashlib.sha256(self.ids.tobytes()).hexdigest()
        self.key = f"{digest}-blocks-{length}-{seed}-{'anywhere' if anywhere else 'shifted'}"
        self.plain: TokenisedPairs = self._cut(np.arange(count, dtype=np.int64) * length)
        self.lines = self.plain.lines

    def __len__(self) -> int:
        return len(self.plain)

    def at(self, epoch: int) -> TokenisedPairs:
        """The blocks of an epoch; their number is the same in all."""
        random, count = np.random.default_rng((self.seed, epoch)), len(self)
        last = len(self.ids) - self.length - 1
        if self.anywhere:
            return self._cut(random.integers(0, last + 1, count))
        shift = int(random.integers(0, last - (count - 1) * self.length + 1))
        return self._cut(shift + np.arange(count, dtype=np.int64) * self.length)

    def _cut(self, starts: np.ndarray) -> TokenisedPairs:
        return _Cut(self.ids, starts, self.length + 1, self.key, self.name)
