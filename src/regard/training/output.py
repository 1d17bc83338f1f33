"""The folder that a training writes to: claimed before the first update, never emptied."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from regard.errors import UserError
from regard.training import resume
from regard.training.recipe import Recipe, differences, read_recipe

RECIPE, LOCK = "recipe.yaml", ".lock"
FIXED = ("tokenizer.", "model.")
"""Settings that a resumed run cannot change: its weights would not fit."""


def claim(output: Path, recipe: Recipe, resumed: bool = False) -> list[str]:
    """Make sure that a training may write to `output`, and make the folder. Gives the settings that a resumed run changes.

    A folder that holds anything is refused unless `resumed`. Then, a missing or empty folder starts anew; a folder that
    holds other things than a training is refused, as is a changed model or tokenizer. UserError, before anything is
    written, also for a path that is a file or cannot be written to.
    """
    held = _held(output)
    changed: list[str] = []
    if held:
        saved = output / RECIPE
        told = differences(_read(saved), recipe) if saved.is_file() else []
        if not resumed:
            raise UserError(_refusal(output, saved.is_file(), told))
        if not saved.is_file():
            raise UserError(f"{output} holds {held}, but no {RECIPE}: no training to go on with; choose another folder")
        fixed = [line for line in told if line.startswith(FIXED)]
        if fixed:
            raise UserError(f"{output}: cannot go on with another model: {'; '.join(fixed)}; choose another folder")
        changed = told
    _writable(output)
    return changed


@contextmanager
def alone(output: Path) -> Iterator[None]:
    """Have a training's folder for oneself, without what killed trainings left there. UserError: another one has it."""
    output.mkdir(parents=True, exist_ok=True)
    lock = FileLock(output / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(f"output {output}: another training is writing to it at this moment") from None
    try:
        resume.sweep(output)
        yield
    finally:
        (output / LOCK).unlink(missing_ok=True)
        lock.release()


def _held(output: Path) -> str:
    """The name of something in the folder; "" if it is missing, or holds no more than a start that was cut off."""
    try:
        names = (entry.name for entry in output.iterdir())
        return next((name for name in names if name != LOCK and not resume.LEFTOVER.fullmatch(name)), "")
    except FileNotFoundError:
        return ""
    except NotADirectoryError:
        raise UserError(f"output {output}: not a folder, or inside a file; choose another path") from None
    except OSError as error:
        raise UserError(f"output {output}: cannot be read: {error.strerror}") from None


def _refusal(output: Path, trained: bool, told: list[str]) -> str:
    if not trained:
        return f"output {output} is not empty; choose a folder that is empty or does not exist"
    differ = f" with other settings ({'; '.join(told)})" if told else " with the same settings"
    return f"output {output} already holds a training{differ}; add --resume to go on with it, or choose another folder"


def _read(saved: Path) -> Recipe:
    try:
        return read_recipe(saved.read_bytes().decode("utf-8"), str(saved))
    except UnicodeDecodeError:
        raise UserError(f"{saved}: not UTF-8, so not the recipe that regard wrote") from None


def _writable(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output) as file:
            file.write(b"\0")
            file.flush()
    except OSError as error:
        raise UserError(f"output {output}: cannot be written to: {error.strerror}") from None
