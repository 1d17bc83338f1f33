"""Optimisers and learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from regard.errors import UserError
from regard.training.muon import build_muon
from regard.training.sections import Training


def _inverse_sqrt(rates: Training, step: int, done: float) -> float:
    return (max(rates.warmup_steps, 1) / max(step, rates.warmup_steps, 1)) ** 0.5


def _linear(rates: Training, step: int, done: float) -> float:
    return 1.0 - done


def _cosine(rates: Training, step: int, done: float) -> float:
    return 0.5 * (1.0 + math.cos(math.pi * done))


def _wsd(rates: Training, step: int, done: float) -> float:
    return min(1.0, (1.0 - done) / 0.2)


def _constant(rates: Training, step: int, done: float) -> float:
    return 1.0


SCHEDULES: dict[str, Callable[[Training, int, float], float]] = {
    "inverse_sqrt": _inverse_sqrt,
    "linear": _linear,
    "cosine": _cosine,
    "wsd": _wsd,
    "constant": _constant,
}
"""After the warm-up, the share of the peak rate at an update. inverse_sqrt: sqrt(warmup / step), the Noam schedule of
Vaswani et al. 2017 with its peak stated outright. wsd: constant, then linear over the last fifth (Hu et al. 2024). All but
inverse_sqrt and constant end at final_learning_rate when the limit is reached."""


def learning_rate(rates: Training, step: int, elapsed: float = 0.0) -> float:
    """The rate of update `step` (the first is 1), `elapsed` seconds into the training.

    It rises linearly to `learning_rate` at update `warmup_steps` and is never zero at update 1. What counts as the end is
    whichever of `max_steps` and `max_minutes` is nearer. UserError for an unknown schedule, or one without an end.
    """
    if rates.schedule not in SCHEDULES:
        raise UserError(f"training.schedule: unknown schedule {rates.schedule!r}; known: {', '.join(SCHEDULES)}")
    ends = rates.schedule not in ("inverse_sqrt", "constant")
    if ends and not rates.max_steps and not rates.max_minutes:
        raise UserError(f"training.schedule: {rates.schedule} needs an end: set training.max_steps or training.max_minutes")
    if step < rates.warmup_steps:
        return rates.learning_rate * max(step, 1) / rates.warmup_steps
    done = 0.0
    if rates.max_steps:
        done = (step - rates.warmup_steps) / max(rates.max_steps - rates.warmup_steps, 1)
    if rates.max_minutes:
        done = max(done, elapsed / (60.0 * rates.max_minutes))
    share = SCHEDULES[rates.schedule](rates, step, min(done, 1.0))
    floor = rates.final_learning_rate if ends else 0.0
    return floor + (rates.learning_rate - floor) * share


def build_optimizer(model: nn.Module, settings: Training) -> torch.optim.Optimizer:
    """Adam, AdamW or Muon by settings.{optimizer, learning_rate, betas, eps, weight_decay}, in torch's fused form.

    Weight decay spares vectors: biases and the gains of norms.
    """
    if settings.optimizer == "muon":
        return build_muon(model, settings)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if settings.optimizer not in kinds:
        raise UserError(f"training.optimizer: unknown optimizer {settings.optimizer!r}; known: {', '.join(kinds)}, muon")
    weights = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in weights if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in weights if p.dim() <= 1], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    return kinds[settings.optimizer](
        groups, lr=settings.learning_rate, betas=tuple(settings.betas), eps=settings.eps, fused=True
    )
