"""regard: train, look into and serve attention models.

    import regard
    model = regard.load("runs/en-fr")
    model.translate(["How are you?"])

Public names are imported when they are first used, so that `import regard` costs nothing and needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.architecture import Answer, Description, Model, Targets
    from regard.classifier import Classification, Classifier
    from regard.decoding.options import Search
    from regard.embedder import Embedder
    from regard.ensemble import Ensemble
    from regard.errors import UserError
    from regard.filler import Filler, Filling
    from regard.generator import Generation, Generator
    from regard.inspection.tape import record
    from regard.layout import Layout
    from regard.loading import load
    from regard.translator import Translation, Translator

_WHERE = {
    "Answer": "regard.architecture",
    "Classification": "regard.classifier",
    "Classifier": "regard.classifier",
    "Description": "regard.architecture",
    "Embedder": "regard.embedder",
    "Ensemble": "regard.ensemble",
    "Filler": "regard.filler",
    "Filling": "regard.filler",
    "Generation": "regard.generator",
    "Generator": "regard.generator",
    "Layout": "regard.layout",
    "Model": "regard.architecture",
    "Search": "regard.decoding.options",
    "Targets": "regard.architecture",
    "Translation": "regard.translator",
    "Translator": "regard.translator",
    "UserError": "regard.errors",
    "load": "regard.loading",
    "record": "regard.inspection.tape",
}

__all__ = [
    "Answer",
    "Classification",
    "Classifier",
    "Description",
    "Embedder",
    "Ensemble",
    "Filler",
    "Filling",
    "Generation",
    "Generator",
    "Layout",
    "Model",
    "Search",
    "Targets",
    "Translation",
    "Translator",
    "UserError",
    "load",
    "record",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in _WHERE:
        raise AttributeError(f"module 'regard' has no attribute {name!r}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE, "__version__"])


def _version() -> str:
    """The installed version; "0+source" for a source tree that is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("regard")
    except PackageNotFoundError:
        return "0+source"
