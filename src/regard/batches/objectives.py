"""What is predicted from what: an objective turns examples into a Batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from regard.batches.collate import Batch, collate


class Objective(Protocol):
    """What a stream of batches needs to know of a task."""

    def widths(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Token counts Int[N] of both sides -> columns Int[N] that each example takes in the encoder and in the decoder.
        A token less on a side must be a column less."""
        ...

    def __call__(
        self, examples: Sequence[tuple[np.ndarray, np.ndarray]], numbers: Sequence[int], noise: np.random.Generator
    ) -> Batch:
        """Ids of some examples, without specials, and their numbers -> Batch. Whatever is drawn (tokens to mask, spans)
        is drawn from `noise`, which is the same after a resumption."""
        ...


@dataclass(frozen=True)
class Translation:
    """The target sentence from the source sentence: inputs source + eos, outputs bos + target, targets target + eos."""

    pad: int = 0
    bos: int = 2
    eos: int = 3

    @classmethod
    def of(cls, tokenizers: Any) -> Translation:
        """With the special ids of a regard.text.tokenizer.Tokenizers."""
        return cls(tokenizers.target.pad, tokenizers.target.bos, tokenizers.target.eos)

    def widths(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """One more column than tokens on both sides."""
        return source + 1, target + 1

    def __call__(
        self, examples: Sequence[tuple[np.ndarray, np.ndarray]], numbers: Sequence[int], noise: np.random.Generator
    ) -> Batch:
        """Draws nothing."""
        return collate(examples, numbers, self.pad, self.bos, self.eos)
