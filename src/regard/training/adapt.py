"""Whether a model can learn a task, and which of its weights do: all, some by name, or low-rank updates alone."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from regard.errors import UserError
from regard.layers import lora
from regard.training.recipe import Recipe
from regard.training.wording import nearest

HALVES = {
    "translation": "an encoder and a decoder",
    "spans": "an encoder and a decoder",
    "denoising": "an encoder and a decoder",
    "language": "a decoder alone",
    "permutation": "a decoder alone",
    "masked": "an encoder alone",
    "images": "an encoder alone",
}
"""What a task needs, by its kind; others take any model."""


def check_model(model: Any, kind: str, packed: bool) -> None:
    """UserError if a model (regard.architecture.Model) cannot learn a kind of task, or reads packed rows that it cannot keep
    apart."""
    both = model.encoder is not None and model.decoder is not None
    found = "an encoder and a decoder" if both else f"{'a decoder' if model.encoder is None else 'an encoder'} alone"
    wanted = HALVES.get(kind, found)
    if found != wanted:
        raise UserError(f"task.kind: {kind} needs {wanted}; model.architecture gives {found}: choose another")
    if kind == "permutation" and not hasattr(model.decoder, "ordered"):
        raise UserError(
            "task.kind: permutation needs a decoder that predicts in any order; choose another model.architecture"
        )
    if packed and not model.packs:
        raise UserError(
            "task.pack: this model reads token after token through one state and cannot keep packed texts apart;"
            " set task.pack: false"
        )


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
