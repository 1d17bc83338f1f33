"""Whether a model can learn a task, and which of its weights do: all, some by name, or low-rank updates alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from torch import nn

from regard.batches.limits import LengthReport, Limits
from regard.batches.objectives import Translation
from regard.batches.windows import windows_of
from regard.decoding.alignment import can_look
from regard.errors import UserError
from regard.layers import lora
from regard.training.prepare import Prepared
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


def check_positions(model: Any, recipe: Recipe, prepared: Prepared) -> None:
    """UserError if a text is longer than a model of one half has positions. (Several texts in a row have their own each, and
    the halves of a translator are held to theirs by `held`.)"""
    half, longest = model.decoder if model.encoder is None else model.encoder, recipe.data.max_length
    if prepared.packed or None not in (model.encoder, model.decoder) or (half.limit or longest) >= longest:
        return
    for data, objective in ((prepared.train, prepared.objective), (prepared.valid, prepared.watched)):
        found = windows_of(data, objective or Translation(), Limits(half.limit, None, "cut")).report
        if found.count:
            where = ", ".join(map(str, found.source[:8])) + (", …" if found.count > 8 else "")
            raise UserError(
                f"data.max_length: is {longest}, the model has positions for {half.limit} tokens, and {found.count} examples"
                f" of the {found.name} have more (lines {where}): lower it"
            )


def too_long(learned: LengthReport, limits: Limits, prepared: Prepared) -> list[str]:
    """What is said of training and validation examples that are longer than the limits: how many, and in which lines."""
    if not len(prepared.valid):
        return learned.lines()
    skipped = replace(limits, action="skip")
    return learned.lines() + windows_of(prepared.valid, prepared.watched or Translation(), skipped).report.lines()


def check_search(model: Any, recipe: Recipe) -> None:
    """UserError if the recipe's search asks for what a model cannot do."""
    if recipe.search.replace_unknown and not can_look(model):
        raise UserError(
            "search.replace_unknown: needs attention over the source, which model.architecture does not give here"
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
