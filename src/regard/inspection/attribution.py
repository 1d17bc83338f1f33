"""What a prediction owes to each input token: by gradients, along a path of them, or by taking tokens away.

An input is the vector of a token before positions are added (of an image: of a patch). Its baseline, what stands there when
it is "not there", is the zero vector. None of these is the truth about a model; each says what it measures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.inspection.reading import Reading

CHUNK = 16
"""Copies of a text that are read at once."""
STEPS = 32


@dataclass(frozen=True)
class Question:
    """Why `token` at row `place` (0 for an answer of the whole input); with `other`: why it rather than that."""

    place: int
    token: int
    other: int | None = None

    def value(self, logits: Tensor) -> Tensor:
        """What is explained, of logits Float[B N V]: log p(token), or with `other` log p(token) - log p(other); of a single
        class its logit. Float[B]."""
        row = logits[:, self.place]
        row = row.to(torch.promote_types(row.dtype, torch.float32))
        if self.other is not None:
            return row[:, self.token] - row[:, self.other]
        return row[:, self.token] if row.shape[1] == 1 else row.log_softmax(-1)[:, self.token]


@dataclass(frozen=True, eq=False)
class Owed:
    """scores: by the side's name Float[n N], a row a question. error: how far each row's sum over all sides is from what it
    should be, None where the method promises nothing."""

    scores: dict[str, Tensor]
    error: list[float] | None = None


class Inputs:
    """The vectors that a model makes of one text's tokens, to be replaced by others."""

    def __init__(self, model: Any, reading: Reading) -> None:
        self.model, self.reading = model, reading
        self.parts: dict[str, nn.Module] = {}
        self.vectors: dict[str, Tensor] = {}
        halves = [half for half in (model.encoder, model.decoder) if half is not None]
        given = [reading.inputs, reading.outputs] if len(halves) == 2 else [reading.inputs]
        names = ["source", "read"] if len(halves) == 2 else [reading.first]
        for name, half, ids in zip(names, halves, given):
            embed: Any = half.embed
            self.parts[name] = embed.tokens if hasattr(embed, "tokens") else embed.project
            with torch.no_grad():
                self.vectors[name] = self.parts[name](ids)

    @contextmanager
    def replaced(self, vectors: dict[str, Tensor]) -> Iterator[None]:
        """Within the block the model reads these vectors, Float[B …], in place of its own."""

        def hook(new: Tensor) -> Any:
            return lambda _, __, old: new if new.dim() == 4 else new[:, : old.shape[1]]

        handles = [self.parts[name].register_forward_hook(hook(new)) for name, new in vectors.items()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def logits(self, vectors: dict[str, Tensor]) -> Tensor:
        """Logits Float[B N V] of so many variants of the text."""
        copies = next(iter(vectors.values())).shape[0]
        with self.replaced(vectors):
            return self.reading.logits(self.model, copies)

    def copies(self, count: int) -> dict[str, Tensor]:
        """So many equal variants."""
        return {name: one.expand(count, *one.shape[1:]) for name, one in self.vectors.items()}

    def gradients(self, questions: Sequence[Question], vectors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The gradient of question i's value in variant i by its vectors."""
        leaves = {name: one.detach().clone().requires_grad_() for name, one in vectors.items()}
        with torch.enable_grad():
            logits = self.logits(leaves)
            total = torch.stack([its.value(logits[n : n + 1])[0] for n, its in enumerate(questions)]).sum()
            grads = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        return {name: torch.zeros_like(leaf) if g is None else g for (name, leaf), g in zip(leaves.items(), grads)}


def summed(products: Tensor) -> Tensor:
    """Float[B N] of products [B N D], or of patches [B D h w], before which the image's own vector has nothing."""
    if products.dim() == 4:
        return nn.functional.pad(products.sum(1).flatten(1), (1, 0))
    return products.sum(-1)


def input_x_gradient(model: Any, reading: Reading, questions: Sequence[Question]) -> Owed:
    """The vector times the gradient of the answer's value by it: what the answer would gain or lose, were it linear."""
    inputs, found = Inputs(model, reading), []
    for at in range(0, len(questions), CHUNK):
        some = questions[at : at + CHUNK]
        grads = inputs.gradients(some, inputs.copies(len(some)))
        found.append({name: summed(grads[name] * one) for name, one in inputs.vectors.items()})
    return Owed({name: torch.cat([each[name] for each in found]).float() for name in inputs.vectors})


def integrated_gradients(model: Any, reading: Reading, questions: Sequence[Question], steps: int = STEPS) -> Owed:
    """Gradients along the straight path from the baseline, times the vector (Sundararajan et al. 2017), the integral taken
    at Gauss and Legendre's points instead of equal steps. Scores should sum to value - value at the baseline; `error` says
    how far they are from it."""
    inputs = Inputs(model, reading)
    points, shares = np.polynomial.legendre.leggauss(steps)
    halfway, shares = (points + 1) / 2, shares / 2
    alphas, shares = halfway**2, 2 * halfway * shares  # more points near the baseline, where norms turn fastest
    rows: dict[str, list[Tensor]] = {name: [] for name in inputs.vectors}
    errors = []
    for its in questions:
        sums = {name: torch.zeros_like(one) for name, one in inputs.vectors.items()}
        for at in range(0, steps, CHUNK):
            alpha, share = (torch.as_tensor(x[at : at + CHUNK]) for x in (alphas, shares))
            scaled = {name: _times(one, alpha) for name, one in inputs.copies(len(alpha)).items()}
            grads = inputs.gradients([its] * len(alpha), scaled)
            for name in sums:
                sums[name] = sums[name] + _times(grads[name], share).sum(0, keepdim=True)
        for name, one in inputs.vectors.items():
            rows[name].append(summed(sums[name] * one))
        with torch.no_grad():
            ends = inputs.logits({name: _times(one, torch.tensor([0.0, 1.0])) for name, one in inputs.copies(2).items()})
            empty, whole = its.value(ends).tolist()
        errors.append(abs(sum(float(rows[name][-1].sum()) for name in rows) - (whole - empty)))
    return Owed({name: torch.cat(each).float() for name, each in rows.items()}, errors)


def _times(x: Tensor, factors: Tensor) -> Tensor:
    return x * factors.to(x).view(-1, *[1] * (x.dim() - 1))


@torch.no_grad()
def occlusion(
    model: Any, reading: Reading, questions: Sequence[Question], groups: dict[str, list[list[int]]] | None = None
) -> Owed:
    """How much the answer's value falls when a token's vector is made zero, its place kept. groups: by side the sets of
    tokens that are taken away together (words); None: each token of each side alone."""
    inputs = Inputs(model, reading)
    whole = inputs.logits(inputs.copies(1))
    before = torch.stack([its.value(whole)[0] for its in questions])
    if groups is None:
        groups = {name: [[n] for n in range(_count(one))] for name, one in inputs.vectors.items()}
    scores = {}
    for name, sets in groups.items():
        falls = []
        for at in range(0, len(sets), CHUNK):
            some = sets[at : at + CHUNK]
            vectors = inputs.copies(len(some))
            vectors[name] = vectors[name].clone()
            for row, places in enumerate(some):
                _clear(vectors[name][row], places)
            logits = inputs.logits(vectors)
            falls.append(before[:, None] - torch.stack([its.value(logits) for its in questions]))
        scores[name] = torch.cat(falls, 1).float() if falls else before.new_zeros(len(questions), 0)
    return Owed(scores)


def _count(vectors: Tensor) -> int:
    return vectors.shape[1] if vectors.dim() == 3 else 1 + vectors.shape[2] * vectors.shape[3]


def _clear(vectors: Tensor, places: list[int]) -> None:
    if vectors.dim() == 2:
        vectors[places] = 0.0
        return
    columns = vectors.shape[2]
    for place in places:
        if place:  # the image's own vector is no patch
            vectors[:, (place - 1) // columns, (place - 1) % columns] = 0.0


METHODS = {
    "input_x_gradient": input_x_gradient,
    "integrated_gradients": integrated_gradients,
    "occlusion": occlusion,
}
