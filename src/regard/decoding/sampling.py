"""Drawing tokens: temperature, top-k, top-p, min-p, and draws that batch mates cannot change."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from regard.decoding.best import best_of
from regard.decoding.options import Search


def filtered(logits: Tensor, options: Search) -> tuple[Tensor, Tensor]:
    """Probabilities Float[R K] of the tokens that may be drawn, most likely first (the lower id among equals), some of
    them zero, and the ids Int[R K] they belong to; K is top_k, or all."""
    scaled = logits / options.temperature
    if 0 < options.top_k < scaled.shape[-1]:  # finding a few is much faster than sorting all
        scaled, ids = best_of(scaled, options.top_k)
    else:
        scaled, ids = scaled.sort(dim=-1, descending=True, stable=True)
    probabilities = scaled.softmax(-1)
    if options.min_p > 0:
        probabilities = probabilities.masked_fill(probabilities < options.min_p * probabilities[:, :1], 0.0)
    if options.top_p < 1:
        before = probabilities.cumsum(-1) - probabilities
        outside = before >= options.top_p * probabilities.sum(-1, keepdim=True)
        outside[:, 0] = False
        probabilities = probabilities.masked_fill(outside, 0.0)
    return probabilities, ids


def draws(seed: int, numbers: Sequence[tuple[int, int]], counts: Sequence[int]) -> Tensor:
    """Uniform draws Double[R T] in [0, 1): row r has counts[r] of them, which depend on the seed and on numbers[r]
    (sentence, sample) alone."""
    result = torch.zeros(len(numbers), max(counts, default=0), dtype=torch.float64)
    for row, ((sentence, sample), count) in enumerate(zip(numbers, counts, strict=True)):
        mixed = hashlib.blake2b(f"{seed} {sentence} {sample}".encode(), digest_size=7).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(mixed, "little"))
        result[row, :count] = torch.rand(count, dtype=torch.float64, generator=generator)
    return result


class Sampler:
    """Chooses the next token of each row by its own draws."""

    def __init__(self, options: Search, uniform: Tensor) -> None:
        self.options, self.uniform = options, uniform

    def __call__(self, logits: Tensor, step: int, lines: Tensor) -> Tensor:
        """Int[R] from logits Float[R V]. lines: Int[R], the rows of the table of draws."""
        probabilities, ids = filtered(logits, self.options)
        reached = probabilities.cumsum(-1)
        at = self.uniform[lines, step].to(reached.dtype)[:, None] * reached[:, -1:]
        most = (probabilities > 0).sum(-1, keepdim=True) - 1
        place = torch.searchsorted(reached, at, right=True).minimum(most)
        return ids.gather(1, place)[:, 0]
