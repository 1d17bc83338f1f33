"""Where a training starts that goes on from a finished model: `model.from`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from regard import models
from regard.architecture import Description, Model
from regard.batches.objectives import Translation
from regard.checkpoints.folders import load_model, locate, read_plan
from regard.checkpoints.fresh import load_with_head
from regard.errors import UserError
from regard.text.tokenizer import Tokenizers
from regard.training.recipe import GIVEN, Recipe


@dataclass
class Start:
    """A model folder as it is gone on from. tokenizers: None where it has none (images). labels: names of its classes."""

    folder: Path
    description: Description
    tokenizers: Any
    meta: dict[str, Any]
    ids: dict[str, int | None]

    @property
    def labels(self) -> list[str]:
        """Names of the classes of its head."""
        return list(self.meta.get("labels") or [])

    def translation(self) -> Translation:
        """Text to text with the ids that this folder's decoder starts and ends with."""
        target, ids = self.tokenizers.target, self.ids
        pad = 0 if self.description.pad is None else self.description.pad
        bos = target.bos if ids.get("bos") is None else ids["bos"]
        eos = target.eos if ids.get("eos") is None else ids["eos"]
        if bos is None or eos is None:
            raise UserError(f"{self.folder}: names no start or end mark, so no text can be learned from another")
        return Translation(pad, int(bos), int(eos))


def start_of(recipe: Recipe) -> Start | None:
    """The folder of the recipe's model.from, without its weights; None where the recipe makes a new model."""
    if recipe.model.folder is None:
        return None
    try:
        folder = locate(recipe.model.folder)
    except UserError as error:
        raise UserError(f"model.from: {error}") from None
    plan = read_plan(folder)
    images = recipe.task.kind == "images"
    return Start(folder, plan.description, None if images else Tokenizers.open(folder), plan.meta, plan.ids)


def load_start(
    start: Start, recipe: Recipe, given: Mapping[str, Any], labels: list[str], tell: Callable[[str], None]
) -> Model:
    """The model of a folder in training mode, with the head that the task needs and the arguments that the recipe changes.

    A fresh head is made only where the recipe says model.fresh_head, and its tensors are named through `tell`. UserError:
    the head is another and none may be made, or an argument would change the shape of a weight.
    """
    head, classes = given.get("head"), given.get("classes")
    if recipe.model.fresh_head:
        if head is None:
            raise UserError(f"model.fresh_head: a task of kind {recipe.task.kind} needs no other head; leave it out")
        model, fresh, _ = load_with_head(start.folder, head, classes, dtype="float32")
        tell(f"fresh head, untrained: {', '.join(fresh)}")
    else:
        model, _, _ = load_model(start.folder, dtype="float32")
        _check_head(model.description, start, head, labels)
    model = _changed(model, start, recipe)
    return model.float().train()


def _check_head(description: Description, start: Start, head: str | None, labels: list[str]) -> None:
    if head is None:
        return
    _, arguments = family_of(description)
    found = arguments.get("head", "next")
    if found != head:
        raise UserError(
            f"model.from: {start.folder} has the head {found!r}, the task needs {head!r}: set model.fresh_head: true"
        )
    if labels and start.labels and start.labels != labels:
        raise UserError(
            f"model.from: {start.folder} knows the classes {_some(start.labels)}, the data has {_some(labels)}:"
            " set model.fresh_head: true"
        )


def _some(labels: list[str]) -> str:
    return ", ".join(labels[:6]) + (" …" if len(labels) > 6 else "")


def family_of(description: Description) -> tuple[ModuleType | None, dict[str, Any]]:
    """The architecture that describes a model so, and the arguments; None and {} if none can tell."""
    for module in map(models.find, models.names()):
        arguments = module.arguments(description) if hasattr(module, "arguments") else None
        if arguments is not None:
            return module, arguments
    return None, {}


def _changed(model: Model, start: Start, recipe: Recipe) -> Model:
    """The model with the recipe's arguments (dropout, mostly) in place of the folder's."""
    wanted = recipe.model.arguments
    if not wanted:
        return model
    family, arguments = family_of(model.description)
    if family is None:
        raise UserError(f"model: {', '.join(wanted)} cannot be changed: {start.folder} was made by no known architecture")
    known = [name for name in inspect.signature(family.describe).parameters if name not in GIVEN]
    for name in wanted:
        if name not in known:
            raise UserError(f"model.{name}: {start.folder} has no such argument; it has {', '.join(known)}")
    try:
        description = family.describe(**arguments | wanted)
        changed = description.build()
    except (TypeError, ValueError) as error:
        raise UserError(f"model: {error}") from None
    old, new = model.state_dict(), changed.state_dict()
    if old.keys() != new.keys() or any(old[name].shape != new[name].shape for name in old):
        raise UserError(f"model: {', '.join(wanted)} would change the shape of weights that {start.folder} holds")
    with torch.no_grad():
        changed.load_state_dict(old)
    return changed
