"""A new head on a loaded body: how fine-tuning begins."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from regard import models
from regard.architecture import Description, Model
from regard.checkpoints.folders import foreign, load_model, locate, named_tensors, read_plan, unwrap
from regard.checkpoints.rules import Weights
from regard.checkpoints.tensors import TensorFiles
from regard.errors import UserError
from regard.layers.initial import glorot_


def with_head(model: nn.Module, head: Any, classes: int | None = None) -> tuple[Model, list[str]]:
    """A model with the same body and a new head, and the names of its tensors that no training has seen.

    head: the name of one that the model's family has ("masked", "class", "tokens", "next", "vector"), which then has that
    family's published form and ties, or the description of any head, tied to nothing. classes: how many, for a head of
    classes. The body's weights are copied; the new head's are drawn as the family draws them, from torch's global
    generator. UserError: the family has no such head.
    """
    old = unwrap(model)
    family, arguments = _family(old.description)
    if isinstance(head, str):
        description = _described(family, arguments, head, classes)  # its body may read in another way for this head
    else:
        tied = "embeddings" if old.description.tied in ("all", "embeddings") else "no"
        description = replace(old.description, head=head, tied=tied)
    new = description.build()
    getattr(family, "initialise", glorot_)(new)
    new = new.to(old.device, next(old.parameters()).dtype).train(old.training)
    kept = {name.replace("_orig_mod.", ""): tensor for name, tensor in old.state_dict().items()}
    tensors = named_tensors(new)
    fresh = []
    with torch.no_grad():
        for name, tensor in tensors.items():
            half, _, rest = name.partition(".")
            other = f"{'decoder' if half == 'encoder' else 'encoder'}.{rest}"
            stored = None if half == "head" else next((kept[at] for at in (name, other) if at in kept), None)
            if stored is None:
                fresh.append(name)
            else:
                tensor.copy_(stored)
    return new, fresh


def load_with_head(
    folder: str | Path,
    head: Any,
    classes: int | None = None,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
) -> tuple[Model, list[str], dict[str, Any]]:
    """`load_model` and `with_head` at once: the model, the names of its fresh tensors, and what regard.json knows.

    Tensors that the folder holds without its own class computing anything from them, but that the new head's class reads
    (a pooler beside a masked head), are taken from the folder, as transformers does, and are not fresh. Names of classes
    stay behind with the old head.
    """
    where = locate(folder)
    model, _, meta = load_model(where, device, dtype)
    new, fresh = with_head(model, head, classes)
    found = foreign(new.description)
    files = TensorFiles(where)
    plan = read_plan(where, files)
    if found is not None and plan.weights is not None:
        taken = _taken(found[1], plan.weights, files, new, fresh)
        fresh = [name for name in fresh if name not in taken]
    meta.pop("labels", None)
    return new, fresh, meta


def _family(description: Description) -> tuple[ModuleType | None, dict[str, Any]]:
    """The family that describes a model so, and the arguments; None and {} if none can tell."""
    for module in map(models.find, models.names()):
        arguments = module.arguments(description) if hasattr(module, "arguments") else None
        if arguments is not None:
            return module, arguments
    return None, {}


def _described(family: ModuleType | None, arguments: dict[str, Any], head: str, classes: int | None) -> Description:
    if family is None or "head" not in inspect.signature(family.describe).parameters:
        raise UserError(f"head {head!r}: no architecture that describes this model has a choice of heads")
    kept = {name: value for name, value in arguments.items() if name != "tied"}
    try:
        return family.describe(**kept | {"head": head, "classes": classes})
    except (TypeError, ValueError) as error:
        raise UserError(f"head {head!r}: {error}") from None


def _taken(new: Weights, old: Weights, files: TensorFiles, model: Model, fresh: list[str]) -> set[str]:
    """Fill those fresh tensors whose rules name only tensors that the old class ignores; their names."""
    ours, taken, spare = named_tensors(model), set(), old.ignored & files.shapes.keys()
    for rule in new.rules:
        if rule.ours not in fresh:
            continue
        # a class without a head has the names of one with a head, less their first part
        stored = [next((at for at in (name, name.partition(".")[2]) if at in spare), None) for name in rule.names]
        if None not in stored:
            tensor = rule.change.take([files.read(str(at)) for at in stored])
            with torch.no_grad():
                ours[rule.ours].copy_(tensor)
            taken.add(rule.ours)
    return taken
