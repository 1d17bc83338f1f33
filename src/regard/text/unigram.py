"""Learning the pieces of a unigram vocabulary (Kudo 2018, arXiv 1804.10959).

The `tokenizers` library applies such a vocabulary; its trainer is not used, because it never takes a whole word as a
candidate (a fifth more pieces on English and French), gives another file each time, and yields no numbers for very small
texts. Here all words are segmented at once in arrays, so it is also faster.

Deviations from the paper and from sentencepiece: words longer than 64 characters are learnt from in parts; of very large
texts the most frequent words are taken; what a piece is worth is its expected count times the log-likelihood that its best
replacement loses.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Sequence

import numpy as np

LONGEST = 16
"""Characters of the longest piece."""
_PART = 64
_PLACES = 5_000_000
_SEEDS = 16
_SHRINK = 0.75
_FEWEST = 0.5


def learn(words: Counter[str], alphabet: set[str], size: int) -> list[tuple[str, float]]:
    """At most `size` pieces with their log-probabilities, best first, from words and how often they occur. Every character
    of `alphabet` is among them; words with other characters are left out. Equal words give equal pieces."""
    parts = _parts(words, alphabet)
    counts = np.array(list(parts.values()), dtype=np.float64)
    names, guess = _candidates(parts, alphabet, _SEEDS * size)
    ids = {name: number for number, name in enumerate(names)}
    single = np.array([len(name) == 1 for name in names])
    long = np.flatnonzero(~single)
    texts = _Lattices(list(parts), ids)
    inside = _Lattices([names[number] for number in long], ids, whole=False)
    alive = np.ones(len(names), dtype=bool)
    scores = np.log(guess / guess.sum())
    while True:
        expected = texts.expected(scores, counts)
        for last in (False, True):
            alive &= single | (expected >= _FEWEST)
            scores = _scores(expected, alive)
            texts.drop(alive)
            if not last:
                expected = texts.expected(scores, counts)
        if alive.sum() <= size:
            break
        inside.drop(alive, long)
        loss = np.where(single, np.inf, -np.inf)
        left = alive[long]
        loss[long[left]] = expected[long[left]] * (scores[long[left]] - inside.best(scores)[left])
        kept = max(size, int(_SHRINK * alive.sum()))
        # Equal losses fall in the order of the names, never by chance.
        alive[np.lexsort((np.arange(len(names)), -loss))[kept:]] = False
        scores = np.where(alive, scores, -np.inf)
        texts.drop(alive)
    pieces = [(names[number], round(float(scores[number]), 6)) for number in np.flatnonzero(alive)]
    return sorted(pieces, key=lambda piece: (-piece[1], piece[0]))


class _Lattices:
    """All divisions of all texts into pieces. A node is a place between characters, an edge a piece between two of them;
    edges are kept in two orders, so that each depth is one step of array work."""

    def __init__(self, texts: Sequence[str], ids: dict[str, int], whole: bool = True) -> None:
        edges = array("q")
        self.first = np.zeros(len(texts), dtype=np.int64)
        self.last = np.zeros(len(texts), dtype=np.int64)
        node = 0
        for number, text in enumerate(texts):
            length = len(text)
            self.first[number], self.last[number] = node, node + length
            for start in range(length):
                for end in range(start + 1, min(length, start + LONGEST) + 1):
                    piece = ids.get(text[start:end])
                    if piece is not None and (whole or end - start < length):
                        edges.extend((node + start, node + end, piece, number, start))
            node += length + 1
        self.nodes = node
        table = np.frombuffer(edges, dtype=np.int64).reshape(-1, 5) if edges else np.zeros((0, 5), dtype=np.int64)
        depth_end = table[:, 4] + table[:, 1] - table[:, 0]
        self.forward = table[np.lexsort((table[:, 1], depth_end))]
        self.backward = table[np.lexsort((table[:, 0], -table[:, 4]))]

    def drop(self, alive: np.ndarray, owners: np.ndarray | None = None) -> None:
        """Forget the edges of dead pieces, and the texts that are dead pieces themselves."""
        for name in ("forward", "backward"):
            table = getattr(self, name)
            kept = alive[table[:, 2]]
            if owners is not None:
                kept &= alive[owners[table[:, 3]]]
            setattr(self, name, table[kept])

    def expected(self, scores: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """How often each piece is expected, over all divisions by their probability."""
        before = self._sweep(self.forward, scores, np.logaddexp, self.first, 1, 0)
        after = self._sweep(self.backward, scores, np.logaddexp, self.last, 0, 1)
        start, end, piece, text = self.forward[:, :4].T
        share = np.exp(before[start] + scores[piece] + after[end] - before[self.last[text]])
        return np.bincount(piece, share * counts[text], minlength=len(scores))

    def best(self, scores: np.ndarray) -> np.ndarray:
        """Log-probability of the best division of each text; -inf if there is none."""
        return self._sweep(self.forward, scores, np.maximum, self.first, 1, 0)[self.last]

    def _sweep(
        self, table: np.ndarray, scores: np.ndarray, join: np.ufunc, roots: np.ndarray, to: int, origin: int
    ) -> np.ndarray:
        found = np.full(self.nodes, -np.inf)
        found[roots] = 0.0
        depth = table[:, 4] + (table[:, 1] - table[:, 0] if to == 1 else 0)
        for rows in np.split(np.arange(len(table)), np.flatnonzero(np.diff(depth)) + 1):
            if len(rows):
                part = table[rows[0] : rows[-1] + 1]
                heads = np.flatnonzero(np.diff(part[:, to], prepend=-1))
                found[part[heads, to]] = join.reduceat(found[part[:, origin]] + scores[part[:, 2]], heads)
        return found


def _parts(words: Counter[str], alphabet: set[str]) -> dict[str, int]:
    """Words of the alphabet alone, in parts of at most 64 characters, the most frequent first, as far as memory allows."""
    parts: Counter[str] = Counter()
    for word, count in words.items():
        if alphabet.issuperset(word):
            for start in range(0, len(word), _PART):
                parts[word[start : start + _PART]] += count
    chosen, places = {}, 0
    for part, count in sorted(parts.items(), key=lambda item: (-item[1], item[0])):
        places += len(part) * min(len(part), LONGEST)
        if places > _PLACES and chosen:
            break
        chosen[part] = count
    return chosen


def _candidates(parts: dict[str, int], alphabet: set[str], most: int) -> tuple[list[str], np.ndarray]:
    """Characters, and strings that occur at least twice and not always inside the same longer one; with their counts."""
    counts: Counter[str] = Counter()
    for part, count in parts.items():
        for start in range(len(part)):
            for end in range(start + 2, min(len(part), start + LONGEST) + 1):
                counts[part[start:end]] += count
    inner = set()
    for name, count in counts.items():
        for shorter in (name[1:], name[:-1]):
            if counts.get(shorter) == count:
                inner.add(shorter)
    usual = [(name, count) for name, count in counts.items() if count > 1 and name not in inner]
    usual = sorted(usual, key=lambda item: (-item[1] * len(item[0]), item[0]))[:most]
    singles: Counter[str] = Counter(dict.fromkeys(alphabet, 0))
    for part, count in parts.items():
        for character in part:
            singles[character] += count
    chosen = sorted([*usual, *singles.items()])
    return [name for name, _ in chosen], np.array([max(count, 1) for _, count in chosen], dtype=np.float64)


def _scores(expected: np.ndarray, alive: np.ndarray) -> np.ndarray:
    """Log-probabilities of a Bayesian estimate that disfavours rare pieces; characters never fall out."""
    floored = np.maximum(expected, 0.1)
    return np.where(alive, _digamma(floored) - _digamma(np.array(floored[alive].sum())), -np.inf)


def _digamma(x: np.ndarray) -> np.ndarray:
    """The derivative of the logarithm of the gamma function, for x > 0, to 1e-8."""
    shift = np.zeros_like(x)
    for step in range(7):
        shift = shift + 1.0 / (x + step)
    y = x + 7.0
    square = 1.0 / (y * y)
    return np.log(y) - 0.5 / y - square * (1 / 12 - square * (1 / 120 - square / 252)) - shift
