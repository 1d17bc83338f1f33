"""What a model thinks of the references: loss, perplexity and token accuracy on pairs, without label smoothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from regard.architecture import Model
from regard.layers.heads import IGNORED


@dataclass(frozen=True)
class Likelihood:
    """loss: mean negative log-likelihood a predicted token, in nats. perplexity: its exponential. token_accuracy: share
    (0-1) of predicted tokens that the model ranks first, given the reference before them. tokens: predicted tokens."""

    loss: float
    perplexity: float
    token_accuracy: float
    tokens: int


@dataclass(frozen=True)
class Sums:
    """What a mean over tokens is made of; sums of several parts add up, however the data was cut into parts."""

    loss: float = 0.0
    correct: int = 0
    tokens: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.loss + other.loss, self.correct + other.correct, self.tokens + other.tokens)

    def mean(self) -> Likelihood:
        """The token-weighted means; ValueError if nothing was predicted."""
        if self.tokens == 0:
            raise ValueError("no token was predicted: there is no likelihood of nothing")
        loss = self.loss / self.tokens
        # e^709 is the largest a double holds
        return Likelihood(loss, math.exp(loss) if loss < 709 else math.inf, self.correct / self.tokens, self.tokens)


def likelihood(model: Model, batches: Iterable[Any], *, rank: int = 0, world: int = 1) -> Likelihood:
    """Loss, perplexity and token accuracy of a model on batches, each token counted once and alike.

    model: a regard.architecture.Model, evaluated without dropout and left in the mode it was in. batches: Batch objects
    with `targets` Int[B T] (IGNORED at padding), the same on every rank. The answer depends neither on how the pairs were
    batched nor on padding: losses are summed in double over real tokens. With `world` ranks each takes every world-th
    batch, none twice, and the sums are added over torch.distributed, so that every rank has the mean of all.
    """
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            total = sum((_of_batch(model, batch) for batch in islice(batches, rank, None, world)), Sums())
    finally:
        model.train(training)
    return (_over_ranks(total, model.device) if world > 1 else total).mean()


def _of_batch(model: Any, batch: Any) -> Sums:
    batch = batch.to(model.device)
    layouts = {"layout": batch.layout, "output_layout": batch.output_layout, "segments": batch.segments}
    return of_logits(model(batch.inputs, batch.outputs, **layouts).logits, batch.targets)


def of_logits(logits: Tensor, targets: Tensor) -> Sums:
    """Sums over the predicted positions of logits Float[B T V] against targets Int[B T], IGNORED where nothing is; or of
    whole texts, Float[B C] against Int[B]."""
    chosen = (targets != IGNORED).flatten().nonzero().squeeze(1)
    targets, rows = targets.flatten()[chosen], logits.flatten(0, -2)[chosen].float()
    losses = torch.nn.functional.cross_entropy(rows, targets, reduction="none")
    return Sums(float(losses.double().sum()), int((rows.argmax(1) == targets).sum()), len(chosen))


def _over_ranks(sums: Sums, device: torch.device) -> Sums:
    values = torch.tensor([sums.loss, sums.correct, sums.tokens], dtype=torch.float64, device=device)
    torch.distributed.all_reduce(values)
    loss, correct, tokens = values.tolist()
    return Sums(loss, int(correct), int(tokens))


def pair_batches(tokenizers: Any, pairs: Iterable[tuple[str, str]], budget: int = 4096) -> Iterator[Any]:
    """Batches of (source, target) texts for `likelihood`, sorted by length, at most `budget` padded target tokens each."""
    from regard.batches.collate import collate

    source, target = tokenizers.source, tokenizers.target
    sources, targets = zip(*pairs)
    encoded = list(zip(source.encode_batch(list(sources)), target.encode_batch(list(targets))))
    order = sorted(range(len(encoded)), key=lambda i: (len(encoded[i][1]), len(encoded[i][0])))
    held: list[int] = []
    for i in order:
        longest = max(map(len, encoded[i])) + 1
        if held and longest * (len(held) + 1) > budget:
            yield collate([encoded[j] for j in held], held, target.pad, target.bos, target.eos)
            held = []
        held.append(i)
    if held:
        yield collate([encoded[j] for j in held], held, target.pad, target.bos, target.eos)
