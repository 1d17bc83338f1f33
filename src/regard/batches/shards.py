"""Corpora larger than memory: shards of token ids on disk, mixed by weight, read window by window."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.batches.data import Arrays, TokenisedPairs, read_shard

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Corpus:
    """A prepared corpus. folder: of its shards; key: identity of its content; counts: examples of each shard; tokens: of its
    sources and targets; weight: how much of an epoch is drawn from it, beside others."""

    folder: Path
    key: str
    counts: tuple[int, ...]
    tokens: tuple[int, int]
    weight: float = 1.0

    @property
    def size(self) -> int:
        """Its examples."""
        return sum(self.counts)


@dataclass(frozen=True)
class Segment:
    """Rows first … after - 1 of a shard, in the order of a pass over its corpus."""

    corpus: int
    turn: int
    shard: int
    first: int
    after: int


def shard_path(folder: Path, number: int) -> Path:
    """Where a shard lies."""
    return folder / f"shard-{number:05d}.safetensors"


def shares_of(sizes: Sequence[int], weights: Sequence[float | None], temperature: float) -> list[float]:
    """Which share of what is read each corpus has: by its weight, or where none has one by size ** (1 / temperature), which
    above 1 favours small corpora (Arivazhagan et al. 2019). ValueError: some have weights and some have none."""
    if any(weight is not None for weight in weights):
        if any(weight is None for weight in weights):
            raise ValueError("either all corpora have a weight or none has")
        scores = [float(weight or 0.0) for weight in weights]
    else:
        scores = [size ** (1.0 / temperature) for size in sizes]
    return [score / sum(scores) for score in scores]


class Shards:
    """A mixture of corpora of which a window of about `buffer` examples is in memory at a time.

    An epoch has as many examples as all corpora together. Of each corpus it takes its share, going on where the epoch
    before stopped, so that no example comes again before all of its corpus were there. Shards come in another order in each
    pass. A window mixes the corpora as the whole epoch does; what is in it is shuffled by the stream. All is drawn from
    `seed`, epoch and window, so that a place is found again at once.
    """

    def __init__(self, corpora: Sequence[Corpus], seed: int, buffer: int, name: str = "training data") -> None:
        if not corpora or not all(corpus.size for corpus in corpora):
            raise ValueError("a corpus without examples")
        self.corpora, self.seed, self.buffer, self.name = list(corpora), seed & (1 << 64) - 1, buffer, name
        total = sum(corpus.weight for corpus in corpora)
        self.parts = [max(round(len(self) * corpus.weight / total), 1) for corpus in corpora]
        told = [[corpus.key for corpus in corpora], self.parts, self.seed, buffer]
        self.key = hashlib.sha256(json.dumps(told).encode()).hexdigest()
        self._known: tuple[int, list[list[Segment]]] = (-1, [])

    def __len__(self) -> int:
        return sum(corpus.size for corpus in self.corpora)

    @property
    def tokens(self) -> tuple[int, int]:
        """How many there are on either side."""
        source, target = zip(*(corpus.tokens for corpus in self.corpora))
        return sum(source), sum(target)

    @property
    def plain(self) -> TokenisedPairs:
        """The first window: what planning looks at."""
        return self.window(0, 0)

    def windows(self, epoch: int) -> int:
        """How many windows an epoch has."""
        return len(self.planned(epoch))

    def planned(self, epoch: int) -> list[list[Segment]]:
        """The segments of each window of an epoch."""
        if self._known[0] != epoch:
            placed = []
            for number, part in enumerate(self.parts):
                for at, segment in self._taken(number, epoch * part, (epoch + 1) * part):
                    placed.append(((at - epoch * part) / part, number, segment))
            windows: list[list[Segment]] = []
            held = self.buffer
            for _, _, segment in sorted(placed, key=lambda one: one[:2]):
                if held >= self.buffer:
                    windows.append([])
                    held = 0
                windows[-1].append(segment)
                held += segment.after - segment.first
            self._known = epoch, windows
        return self._known[1]

    def _taken(self, number: int, first: int, after: int) -> list[tuple[float, Segment]]:
        """The segments of a corpus from place `first` to `after` of its endless passes, each with the place of its
        middle."""
        corpus, found, at = self.corpora[number], [], first
        while at < after:
            turn = at // corpus.size
            begin = turn * corpus.size
            for shard in np.random.default_rng((self.seed, number, turn)).permutation(len(corpus.counts)).tolist():
                end = begin + corpus.counts[shard]
                low, high = max(begin, at), min(end, after)
                if low < high:
                    found.append(((low + high) / 2, Segment(number, turn, shard, low - begin, high - begin)))
                begin = end
            at = (turn + 1) * corpus.size
        return found

    def window(self, epoch: int, number: int) -> TokenisedPairs:
        """The examples of a window."""
        parts = [self._read(segment) for segment in self.planned(epoch)[number]]
        arrays: Arrays = {name: np.concatenate([part[name] for part in parts]) for name in ("source", "target", "lines")}
        for side in ("source", "target"):
            lengths = np.concatenate([part[f"{side}_lengths"] for part in parts])
            arrays[f"{side}_offsets"] = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        return TokenisedPairs(arrays, f"{self.key}-{epoch}-{number}", self.name)

    def _read(self, segment: Segment) -> Arrays:
        corpus = self.corpora[segment.corpus]
        shard = read_shard(shard_path(corpus.folder, segment.shard), corpus.key)
        draw = np.random.default_rng((self.seed, segment.corpus, segment.turn, segment.shard))
        rows = np.sort(draw.permutation(len(shard))[segment.first : segment.after])
        found: Arrays = {"lines": shard.lines[rows]}
        found["source"], found["source_lengths"] = ragged(shard.source, shard.source_offsets, rows)
        found["target"], found["target_lengths"] = ragged(shard.target, shard.target_offsets, rows)
        return found


def ragged(flat: np.ndarray, offsets: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The chosen rows of values laid end to end, end to end, and their lengths Int[N]."""
    lengths = offsets[rows + 1] - offsets[rows]
    ends = np.cumsum(lengths)
    places = np.repeat(offsets[rows] - (ends - lengths), lengths) + np.arange(int(lengths.sum()))
    return flat[places], lengths
