"""Results of labs whose training takes too long to repeat: they are kept in the package and read."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard.labs.frame.lab import Setting
from regard.labs.frame.values import Column, Measured, Plot, Result, text

FOLDER = Path(__file__).resolve().parents[1] / "stored"
"""NAME.json is what `regard lab NAME --full --json` wrote."""
RUNS = Path("runs") / "labs"
"""Where such a training leaves its models; one that is there is used again."""
Told = Callable[[list[dict[str, Any]], list[Plot]], Measured]


def stored(name: str, folder: Path = FOLDER) -> Result | None:
    """The kept result of that lab; None: there is none yet."""
    path = folder / f"{name}.json"
    return Result.model_validate(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None


def read(name: str, columns: list[Column], told: Told, swap: tuple[str, str], setting: Setting) -> Measured:
    """What `told` says of the kept rows, read anew; under sabotage the rows of two arms have changed names. Without a kept
    result: no checks, and words that say so."""
    kept = stored(name)
    if kept is None:
        return Measured(columns=columns, rows=[], checks=[], finding=waiting(name))
    rows: list[dict[str, Any]] = [dict(row) for row in kept.rows]
    if setting.broken:
        other = dict(zip(swap, reversed(swap)))
        rows = [row | {"arm": other.get(row["arm"], row["arm"])} for row in rows]
    return told(rows, kept.plots)


def waiting(name: str) -> Any:
    """That there is nothing to read."""
    return text(
        f"No stored result is there yet. `regard lab {name} --full` trains and measures.",
        f"还没有存储的结果。`regard lab {name} --full` 会训练并测量。",
    )


def trained(recipe: str, folder: Path, overrides: Sequence[str]) -> Path:
    """The model folder that a recipe with these settings trains; one that is finished there already is used as it is, one
    that was stopped goes on."""
    from regard.training.loop import train
    from regard.training.output import claim
    from regard.training.recipe import load_recipe

    if not (folder / "config.json").is_file():
        loaded = load_recipe(recipe, list(overrides))
        claim(folder, loaded, True)
        train(loaded, folder, True)
    return folder
