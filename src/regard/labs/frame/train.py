"""A short training, the same for every arm of a lab, and what is right after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Draw = Callable[[torch.Generator], dict[str, Any]]
"""Draws a batch: what the model is called with, its targets among it."""
SMOOTH = 10
"""Updates over which a loss is averaged before it counts as reached."""


def train(
    model: Any,
    draw: Draw,
    steps: int,
    seed: int = 0,
    *,
    rate: float = 3e-3,
    constant: bool = False,
    until: float = 0.0,
    watch: Callable[[int], None] | None = None,
) -> list[float]:
    """Adam on batches that are the same for the same seed, whatever the model; gives the loss at each update.

    rate: rises over the first tenth of the updates, then falls to zero on a straight line, or stays if `constant`. until:
    end where the mean loss of the last ten updates is below. watch(step): called before the first update and after each.
    Gradients are cut to a norm of 1. What a model wants held down in training (`Answer.penalties`) is added to its loss.
    """
    source, losses = torch.Generator().manual_seed(seed + 1), []
    adam = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=rate, betas=(0.9, 0.98), fused=True)
    model.train()
    for step in range(1, steps + 1):
        if watch is not None:
            watch(step - 1)
        share = min(1.0, step / (0.1 * steps)) * (1.0 if constant else min(1.0, (steps - step + 1) / (0.9 * steps)))
        adam.param_groups[0]["lr"] = rate * share
        told = model(**draw(source))
        loss = told.loss_sum / told.count
        adam.zero_grad()
        (loss + sum(told.penalties.values()) / told.count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        losses.append(float(loss.detach()))
        if sum(losses[-SMOOTH:]) < SMOOTH * until and step >= SMOOTH:
            break
    if watch is not None:
        watch(len(losses))
    model.eval()
    return losses


@torch.no_grad()
def answers(model: Any, given: dict[str, Any]) -> tuple[Tensor, Tensor]:
    """The likeliest answers of a model to a batch, and what they should be, both Int of the targets' shape."""
    targets = given["targets"].ids
    return model(**{key: value for key, value in given.items() if key != "targets"}).logits.argmax(-1), targets


def right(model: Any, given: dict[str, Any]) -> float:
    """The share of a batch's targets that the model answers right."""
    said, wanted = answers(model, given)
    return float((said == wanted).float().mean())
