"""Which weights a training learns: all, some by name, or low-rank updates alone."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from torch import nn

from regard.errors import UserError
from regard.layers import lora
from regard.training.recipe import Recipe
from regard.training.wording import nearest


def choose_weights(model: nn.Module, recipe: Recipe) -> list[str]:
    """Freeze what the recipe does not learn, in place, and put LoRA's updates beside what it names; a fresh head is learned
    whole. Gives lines for whoever watches; UserError for a name that means nothing, or if nothing is left to learn."""
    its, notes = recipe.training, []
    if its.lora.rank:
        found = lora.adapt(model, its.lora.targets, its.lora.rank, its.lora.alpha, its.lora.dropout)
        if recipe.model.fresh_head:
            for name, parameter in model.named_parameters():
                parameter.requires_grad_(parameter.requires_grad or name.startswith("head."))
        notes.append(f"LoRA of rank {its.lora.rank} on {len(found)} matrices, the first {found[0]}")
    freeze(model, its.freeze)
    if not any(p.requires_grad for p in model.parameters()):
        raise UserError(f"training.freeze: {', '.join(its.freeze)} leaves nothing to learn")
    return notes


def freeze(model: nn.Module, patterns: Sequence[str]) -> None:
    """Stop the learning of all weights whose name fits a pattern (`encoder.embed.*`). UserError for a pattern that fits
    none."""
    names = dict(model.named_parameters())
    for pattern in patterns:
        fitting = [name for name in names if fnmatchcase(name, pattern)]
        if not fitting:
            raise UserError(f"training.freeze: no weight is called {pattern!r}{nearest(pattern, names)}")
        for name in fitting:
            names[name].requires_grad_(False)
