"""Numbers that no model folder can mean, refused before anything is made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from regard.errors import UserError

LARGEST = 2**31 - 1
"""The largest number that a description may hold: no width, length or vocabulary comes near it."""
REPEATED = ("layers", "experts")
"""Words in the names of numbers that say how often a part is built."""
FEW = 256
"""So many parts cost nothing, whatever a folder holds."""
KINDS: dict[type, tuple[str, ...]] = {
    str: ("source", "target", "architecture", "recipe"),
    list: ("labels", "preprocess", "ends"),
    dict: ("search", "training", "scores", "images", "image", "generation", "alignment_head", "quality"),
}
"""What regard.json may tell besides the description, by kind."""
WORDS = {str: "a text", list: "a list", dict: "an object"}


def check_known(own: Mapping[str, Any], where: str) -> None:
    """UserError for the first value of a regard.json that is of another kind than its readers take it for."""
    for kind, names in KINDS.items():
        for name in names:
            if own.get(name) is not None and not isinstance(own[name], kind):
                raise UserError(f"{where}: {name} is {str(own[name])[:40]!r}, should be {WORDS[kind]}")
    for name in ("labels", "preprocess"):
        if not all(isinstance(one, str) for one in own.get(name) or ()):
            raise UserError(f"{where}: {name} should be a list of texts")


def check_numbers(value: Any, where: str, tensors: int, name: str = "") -> None:
    """Look through a description or its arguments. tensors: how many the folder has, for a part that is built once more has
    one of its own. UserError names the first number that is too large, or is none."""
    if is_dataclass(value):
        for field in fields(value):
            own = "experts" if field.name == "count" and hasattr(value, "active") else field.name
            check_numbers(getattr(value, field.name), where, tensors, own)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            check_numbers(item, where, tensors, str(key))
    elif isinstance(value, (tuple, list)):
        for item in value:
            check_numbers(item, where, tensors, name)
    elif isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{where}: {name} is {value}, which is no number")
    elif isinstance(value, int) and abs(value) > LARGEST:
        raise UserError(f"{where}: {name} is {value:.3g}, and no model has so many")
    elif isinstance(value, int) and any(word in name for word in REPEATED) and value > max(FEW, tensors):
        raise UserError(f"{where}: {name} is {value}, but the folder has only {tensors} tensors")
