"""Architectures, one file each, found by their file's name; files whose names begin with _ are what several share."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def names() -> list[str]:
    """The names of all architectures."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_"))


def find(name: str) -> ModuleType:
    """The module of an architecture; ValueError with the known names otherwise."""
    if name not in names():
        raise ValueError(f"unknown architecture {name!r}; known: {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}")
