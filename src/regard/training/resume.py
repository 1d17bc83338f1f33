"""Checkpoints: whole model folders with what a run needs to go on as if it had never stopped.

`DIR/checkpoints/step-00000120/` holds a model folder, `training.safetensors` (optimiser, moving average, random states)
and `training.json` (everything else, and a checksum of each file). A checkpoint is written under another name and renamed
when all of it is on disk: it is whole or it is absent.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from regard.checkpoints.tensors import save_tensors
from regard.errors import UserError
from regard.files import sync, write_json
from regard.training.parallel import kept, like

NAME = re.compile(r"step-(\d{8})")
TENSORS, FACTS, PIECES = "training.safetensors", "training.json", "pieces"
LEFTOVER = re.compile(r"\..*\.(part|partial|going|before|new)")
"""What a save has beside its goal while it writes."""


def step_of(folder: Path) -> int:
    """The update after which a checkpoint was written, by its name; -1 for another folder."""
    match = NAME.fullmatch(folder.name)
    return int(match[1]) if match else -1


def found(output: Path) -> list[Path]:
    """The checkpoints of a run, oldest first."""
    folders = output / "checkpoints"
    if not folders.is_dir():
        return []
    return sorted((f for f in folders.iterdir() if step_of(f) >= 0 and f.is_dir()), key=step_of)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest_of(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def folder_of(output: Path, step: int) -> Path:
    """Where the checkpoint of an update lies."""
    return output / "checkpoints" / f"step-{step:08d}"


def pieces_of(folder: Path) -> Path:
    """Where all ranks write their pieces of a checkpoint's tensors, before it is one."""
    return folder.with_name(f".{folder.name}.{PIECES}.part")


def make(folder: Path) -> None:
    """An empty folder, whatever was there before."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def write(
    folder: Path,
    save: Callable[[Path], None],
    tensors: dict[str, Tensor],
    facts: dict[str, Any],
    pieces: Path | None = None,
) -> None:
    """Write a checkpoint; `save` writes the model folder; pieces: a folder that is moved into it. OSError if the disk fails:
    what was there before is untouched."""
    aside, before = (folder.with_name(f".{folder.name}.{what}") for what in ("partial", "before"))
    for left in (aside, before):
        shutil.rmtree(left, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        save(aside)
        save_tensors(tensors, aside / TENSORS)
        if pieces is not None:
            os.replace(pieces, aside / PIECES)
        files = sorted(path for path in aside.rglob("*") if path.is_file())
        whole = {**facts, "files": {path.relative_to(aside).as_posix(): _digest(path) for path in files}}
        write_json(aside / FACTS, whole | {"digest": _digest_of(whole)})
        for path in (*files, aside / FACTS, *{path.parent for path in files}, aside):
            sync(path)
        if folder.exists():  # the same update again: it stays until this one has its place, and `sweep` knows it
            os.replace(folder, before)
        os.replace(aside, folder)
        sync(folder.parent)
        shutil.rmtree(before, ignore_errors=True)
    except BaseException as error:
        shutil.rmtree(aside, ignore_errors=True)
        _put_back(before, folder)
        if isinstance(error, UserError) and isinstance(error.__cause__, OSError):  # of the model folder
            raise error.__cause__ from None
        raise


def _remove(folder: Path) -> None:
    """Delete a checkpoint so that whoever is killed here leaves none behind that looks like one."""
    going = folder.with_name(f".{folder.name}.going")
    shutil.rmtree(going, ignore_errors=True)
    os.replace(folder, going)
    shutil.rmtree(going, ignore_errors=True)


def _put_back(before: Path, folder: Path) -> None:
    if before.exists() and not folder.exists():
        os.replace(before, folder)


def sweep(output: Path) -> list[Path]:
    """Delete what killed saves left behind in a run's folder, and put back a checkpoint that was to be replaced and was not.
    Gives what went."""
    places = [place for place in (output, output / "checkpoints") if place.is_dir()]
    for before in (output / "checkpoints").glob(".*.before"):
        _put_back(before, before.with_name(before.name.removeprefix(".").removesuffix(".before")))
    left = [path for place in places for path in place.iterdir() if LEFTOVER.fullmatch(path.name)]
    left += output.absolute().parent.glob(f".{glob.escape(output.absolute().name)}.*.new")  # of the finished model
    for path in left:
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return left


def damage(folder: Path) -> str | None:
    """What is wrong with a checkpoint, in words; None if every file is what it was when written."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        told = facts.pop("digest", None)
        if told is not None and told != _digest_of(facts):
            return f"{FACTS} is not what was written"
        files = dict(facts["files"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return f"{FACTS} cannot be read ({error.__class__.__name__})"
    for name, digest in files.items():
        path = folder / str(name)
        if not os.path.isfile(path):  # unlike Path.is_file, of any name
            return f"{name} is missing"
        if _digest(path) != digest:
            return f"{name} is not what was written"
    return None


def newest(output: Path, tell: Callable[[str], None]) -> Path | None:
    """The newest good checkpoint; damaged ones are named through `tell` and passed over. None if there is none; UserError
    if there are some and all are damaged."""
    folders = found(output)
    for folder in reversed(folders):
        fault = damage(folder)
        if fault is None:
            return folder
        tell(f"checkpoint {folder} is damaged: {fault}; going back to the one before")
    if folders:
        raise UserError(
            f"{output / 'checkpoints'}: all {len(folders)} checkpoints are damaged; start anew in another folder"
        )
    return None


def read(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and facts of a checkpoint, beside its model."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    return load_file(folder / TENSORS), facts


def prune(output: Path, keep: Collection[int], step: int) -> list[Path]:
    """Delete the checkpoints of updates before `step` but those in `keep`. Gives what went. Later ones are of a run that
    went back to an older checkpoint: they stay until it writes them anew."""
    gone = [folder for folder in found(output) if step_of(folder) < step and step_of(folder) not in keep]
    for folder in gone:
        _remove(folder)
    return gone


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state by parameter name: "optimizer.exp_avg/encoder…"."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {
        f"optimizer.{kind}/{names[parameter]}": kept(value)
        for parameter, state in optimizer.state.items()
        for kind, value in state.items()
    }


def load_optimizer(model: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` gave."""
    parameters: dict[str, Any] = dict(model.named_parameters())
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            kind, name = key.removeprefix("optimizer.").split("/", 1)
            optimizer.state[parameters[name]][kind] = like(value, parameters[name])


def random_tensors() -> dict[str, Tensor]:
    """The states of torch's random generators."""
    states = {"random.cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["random.cuda"] = torch.cuda.get_rng_state()
    return states


def load_random(tensors: dict[str, Tensor], rank: int = 0) -> None:
    """Put back what `random_tensors` gave (for rank r under the name "random.cpu.r")."""
    torch.set_rng_state(tensors[f"random.cpu.{rank}"])
    if torch.cuda.is_available() and f"random.cuda.{rank}" in tensors:
        torch.cuda.set_rng_state(tensors[f"random.cuda.{rank}"])
