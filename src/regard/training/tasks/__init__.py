"""What may be learned: for each kind of task how its data is read, what its objective is, and how a model is judged."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Protocol

from regard.architecture import Model
from regard.training.prepare import Prepared
from regard.training.recipe import Recipe
from regard.training.validate import Look, Verdict

MODULES = {
    "translation": "translation",
    "language": "language",
    "masked": "language",
    "permutation": "language",
    "spans": "corrupt",
    "denoising": "corrupt",
    "classification": "classification",
    "tagging": "tagging",
    "images": "images",
}
"""The module of each kind, here."""


class Task(Protocol):
    """A kind of task; each module here is one."""

    def prepare(self, recipe: Recipe, cache: Path) -> Prepared:
        """Read and tokenise the data. UserError says what is wrong with it."""
        ...

    def look(self, model: Model, recipe: Recipe, prepared: Prepared) -> Look:
        """Judge a model, in evaluation mode, on the validation data."""
        ...

    def test(self, model: Model, recipe: Recipe, prepared: Prepared) -> Verdict | None:
        """Judge the finished model on the test data; None without any."""
        ...


def find(kind: str) -> Any:
    """The module of a kind of task, which keeps the promise of Task."""
    return importlib.import_module(f"{__name__}.{MODULES[kind]}")
