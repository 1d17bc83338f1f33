"""BPE-dropout with a seed. The library's own cannot be seeded, so a run could not be repeated or resumed exactly."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby, pairwise

from tokenizers import Encoding


class Segmenter:
    """Merges words anew, each possible merge left out with a probability (Provilkov et al. 2020: drawn anew for every
    occurrence at every step of the merging)."""

    def __init__(self, model: dict) -> None:
        self._ids: dict[str, int] = model["vocab"]
        self._ranks = {tuple(pair): rank for rank, pair in enumerate(model["merges"])}

    def sample(self, encodings: Sequence[Encoding], dropout: float, seed: int) -> list[list[int]]:
        """Ids of each encoding with its words segmented anew; equal arguments give equal ids."""
        draw = random.Random(seed).random
        result = []
        for encoding in encodings:
            ids: list[int] = []
            pieces = zip(encoding.word_ids, encoding.tokens, encoding.ids)
            for word, group in groupby(pieces, key=lambda piece: piece[0]):
                parts = list(group)
                names = [name for _, name, _ in parts]
                if word is None or any(name not in self._ids for name in names):
                    ids += [number for _, _, number in parts]
                else:
                    ids += [self._ids[name] for name in self._merge(list("".join(names)), dropout, draw)]
            result.append(ids)
        return result

    def _merge(self, symbols: list[str], dropout: float, draw) -> list[str]:
        ranks = self._ranks
        while len(symbols) > 1:
            best, place = len(ranks), -1
            for number, pair in enumerate(pairwise(symbols)):
                rank = ranks.get(pair)
                if rank is not None and rank < best and draw() >= dropout:
                    best, place = rank, number
            if place < 0:
                break
            symbols[place : place + 2] = [symbols[place] + symbols[place + 1]]
        return symbols
