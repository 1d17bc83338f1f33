"""Labs: one file a claim of the two course notes on attention, measured on the toolkit's own modules. A lab is found by its
file name; the frame that runs, shows and stores it is in `frame`."""

from __future__ import annotations

import difflib
import importlib
import pkgutil

from regard.errors import UserError
from regard.labs.frame.lab import Lab


def names() -> list[str]:
    """The names of all labs, in the order of the alphabet; imports none of them."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


def find(name: str) -> Lab:
    """The lab of that name. UserError with the nearest names otherwise."""
    if name not in names():
        near = difflib.get_close_matches(name, names(), 1)
        raise UserError(f"unknown lab {name!r}; " + (f"did you mean {near[0]}?" if near else f"known: {', '.join(names())}"))
    return importlib.import_module(f"{__name__}.{name}").LAB


def every() -> list[Lab]:
    """All labs, in the order of their numbers."""
    return sorted((find(name) for name in names()), key=lambda lab: lab.number)
