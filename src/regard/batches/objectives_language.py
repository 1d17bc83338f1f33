"""What is predicted of a single text: the next token, hidden tokens, tokens in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from regard.batches.collate import Batch, padded
from regard.layers.heads import IGNORED
from regard.layout import Layout

Example = tuple[np.ndarray, np.ndarray]
"""Ids of a row, and the lengths of the documents in it; none: it is one document."""


def documents(example: Example) -> list[np.ndarray]:
    """The documents of a row."""
    ids, lengths = example
    return [ids] if len(lengths) < 2 else np.split(ids, np.cumsum(lengths)[:-1])


def placed(lengths: Sequence[Sequence[int]]) -> Layout:
    """The layout of rows with so many tokens in each of their documents."""
    if all(len(row) == 1 for row in lengths):
        return Layout.padded([row[0] for row in lengths])
    return Layout.packed(lengths)


def _nothing(source: np.ndarray) -> np.ndarray:
    return np.zeros_like(source)


@dataclass(frozen=True)
class NextToken:
    """Each token of a document from those before it: inputs all but the last, targets all but the first. Documents in one
    row are kept apart by the layout."""

    pad: int = 0

    def widths(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One column fewer than tokens, for each document; nothing in a second half."""
        return source - np.maximum(target, 1), _nothing(source)

    def __call__(self, examples: Sequence[Example], numbers: Sequence[int], noise: np.random.Generator) -> Batch:
        """Draws nothing."""
        rows = [documents(example) for example in examples]
        lengths = [[len(one) - 1 for one in row] for row in rows]
        inputs, targets = ([np.concatenate([one[cut] for one in row]) for row in rows] for cut in (_FRONT, _BACK))
        count = sum(map(sum, lengths))
        return Batch(
            inputs=torch.from_numpy(padded(inputs, self.pad)),
            layout=placed(lengths),
            targets=torch.from_numpy(padded(targets, IGNORED)),
            examples=[int(number) for number in numbers],
            source_tokens=count,
            target_tokens=count,
        )


_FRONT, _BACK = slice(None, -1), slice(1, None)


@dataclass(frozen=True, eq=False)
class Masked:
    """Hidden tokens from all others (Devlin et al. 2019): `share` of a document's tokens, at least one, is predicted; of
    these 80 % are replaced by `mask`, 10 % by a token drawn from `others`, 10 % stay. They are drawn anew for every batch
    (Liu et al. 2019), so that each epoch hides others.

    special: Bool[V], tokens that are never chosen. begins: Bool[V], tokens with which a word begins; then whole words are
    chosen, each piece hidden by itself; None: single tokens are. others: Int[N].
    """

    mask: int
    special: np.ndarray
    others: np.ndarray
    begins: np.ndarray | None = None
    share: float = 0.15
    pad: int = 0

    def widths(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As many columns as tokens."""
        return source, _nothing(source)

    def __call__(self, examples: Sequence[Example], numbers: Sequence[int], noise: np.random.Generator) -> Batch:
        """Draws what is hidden, and behind what."""
        rows = [documents(example) for example in examples]
        inputs, targets = [], []
        for row in rows:
            hidden, wanted = zip(*(self._hidden(ids.astype(np.int64), noise) for ids in row))
            inputs.append(np.concatenate(hidden))
            targets.append(np.concatenate(wanted))
        return Batch(
            inputs=torch.from_numpy(padded(inputs, self.pad)),
            layout=placed([[len(one) for one in row] for row in rows]),
            targets=torch.from_numpy(padded(targets, IGNORED)),
            examples=[int(number) for number in numbers],
            source_tokens=sum(len(row) for row in inputs),
            target_tokens=int(sum((row != IGNORED).sum() for row in targets)),
        )

    def _hidden(self, ids: np.ndarray, noise: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        chosen = self.chosen(ids, noise)
        seen, wanted = ids.copy(), np.full_like(ids, IGNORED)
        wanted[chosen] = ids[chosen]
        kind = noise.random(len(chosen))
        seen[chosen[kind < 0.8]] = self.mask
        drawn = chosen[(kind >= 0.8) & (kind < 0.9)]
        seen[drawn] = noise.choice(self.others, len(drawn))
        return seen, wanted

    def chosen(self, ids: np.ndarray, noise: np.random.Generator) -> np.ndarray:
        """The places that are predicted in a document of ids Int[T]."""
        places = np.flatnonzero(~self.special[ids])
        wanted = max(1, round(self.share * len(places)))
        if self.begins is None:
            return noise.permutation(places)[:wanted]
        word = np.cumsum(self.begins[ids] | self.special[ids])[places]
        found: list[np.ndarray] = []
        count = 0
        for one in noise.permutation(np.unique(word)):
            members = places[word == one]
            if found and count + len(members) > wanted:
                continue  # a long word would be more than the share; a shorter one may still fit
            found.append(members)
            count += len(members)
            if count >= wanted:
                break
        return np.concatenate(found) if found else places[:0]


@dataclass(frozen=True)
class Permutation:
    """Tokens in an order drawn at random (Yang et al. 2019): the last `share` of a document's tokens in the drawn order is
    predicted, each from the tokens before it in that order and its own place.

    Layout.mark is that order: 0 for tokens that all may see (never predicted), 1, 2, … for the predicted ones in the order
    of prediction. fixed: so many tokens at the end of a document (its marks) are never predicted. spans: targets are runs
    of up to so many neighbours, as in the paper's code; 1: single tokens.
    """

    share: float = 1 / 6
    fixed: int = 1
    spans: int = 5
    pad: int = 0

    def widths(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As many columns as tokens."""
        return source, _nothing(source)

    def __call__(self, examples: Sequence[Example], numbers: Sequence[int], noise: np.random.Generator) -> Batch:
        """Draws the order."""
        rows = [example[0].astype(np.int64) for example in examples]
        orders = [self.order(len(ids), noise) for ids in rows]
        targets = [np.where(order > 0, ids, IGNORED) for ids, order in zip(rows, orders)]
        layout = Layout.padded([len(ids) for ids in rows])
        return Batch(
            inputs=torch.from_numpy(padded(rows, self.pad)),
            layout=replace(layout, mark=torch.from_numpy(padded(orders, 0))),
            targets=torch.from_numpy(padded(targets, IGNORED)),
            examples=[int(number) for number in numbers],
            source_tokens=sum(map(len, rows)),
            target_tokens=int(sum((order > 0).sum() for order in orders)),
        )

    def order(self, length: int, noise: np.random.Generator) -> np.ndarray:
        """The order of prediction Int[T] of a document: 0 where nothing is predicted."""
        free = max(length - self.fixed, 1)
        wanted = max(1, round(self.share * free))
        chosen = np.zeros(free, dtype=bool)
        while int(chosen.sum()) < wanted:
            run = min(int(noise.integers(1, self.spans + 1)), wanted - int(chosen.sum()))
            at = int(noise.integers(0, free))
            chosen[at : at + run] = True
        order = np.zeros(length, dtype=np.int64)
        places = np.flatnonzero(chosen)
        order[places] = 1 + noise.permutation(len(places))
        return order
