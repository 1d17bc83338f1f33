"""A model folder written anew: in another number type, in other shards, out of pickles."""

from __future__ import annotations

import os
import pickle
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from regard.checkpoints.folders import CONFIG, OWN, load_model, locate, save_model
from regard.checkpoints.tensors import FILE, INDEX, PICKLES, SHARD_BYTES, listed, write_tensors
from regard.checkpoints.verify import CERTIFICATE
from regard.errors import UserError

PICKLED, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
ANEW = (CONFIG, OWN, INDEX, PICKLED_INDEX, CERTIFICATE)
"""What is written anew, or says nothing about the new folder."""


def read_pickles(folder: Path) -> dict[str, Tensor]:
    """The tensors of a folder's pytorch_model.bin, or of its shards, opened so that no code of theirs runs.

    UserError: there is none, it is damaged, or holds more than tensors.
    """
    files = [PICKLED]
    if (folder / PICKLED_INDEX).is_file():
        files = listed(folder / PICKLED_INDEX)
    found: dict[str, Tensor] = {}
    for name in files:
        path = folder / name
        _check_size(path)
        try:
            held = torch.load(path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            raise UserError(f"{folder}: there is no {name} in this folder") from None
        except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, KeyError) as error:
            reason = str(error).strip().split("\n")[0] or type(error).__name__
            raise UserError(f"{path}: damaged, or holds more than tensors, which is never opened ({reason})") from None
        if not isinstance(held, dict) or not all(isinstance(tensor, Tensor) for tensor in held.values()):
            raise UserError(f"{path}: should hold tensors by name and nothing else")
        found |= held
    return found


def _check_size(path: Path) -> None:
    """UserError for a packed file: PyTorch stores tensors as they are, and a packed one may hold any size."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            if sum(entry.file_size for entry in file.infolist()) > path.stat().st_size:
                raise UserError(f"{path}: unpacks to more than it is, which PyTorch's own files do not")


@contextmanager
def _readable(folder: Path, allow_pickle: bool) -> Iterator[Path]:
    """The folder, or where it has pickles alone and they are allowed, one beside it that holds the same tensors safely."""
    if not allow_pickle or any((folder / name).is_file() for name in (FILE, INDEX)):
        yield folder
        return
    tensors = read_pickles(folder)
    with TemporaryDirectory() as name:
        place = Path(name)
        write_tensors(place, tensors)
        for file in (CONFIG, OWN):
            if (folder / file).is_file():
                shutil.copy(folder / file, place / file)
        try:
            yield place
        except UserError as error:
            raise UserError(str(error).replace(str(place), str(folder))) from None


def resave(
    source: str | Path,
    output: str | Path,
    dtype: str | torch.dtype | None = None,
    shard_bytes: int = SHARD_BYTES,
    allow_pickle: bool = False,
) -> dict[str, Any]:
    """Write the model of any folder that regard loads to a new folder; gives its meta.

    dtype: None for the number type stored. shard_bytes: weights above this go into several files. allow_pickle: read
    pytorch_model.bin where there is no safetensors file (tensors alone: weights_only). Tokenizers, the card, search
    settings and all else that the folder holds are copied as they are. UserError: `output` holds something, or `source`
    does not load.
    """
    source, output = locate(source), Path(output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UserError(f"{output}: is not empty; the model goes into a new folder")
    with _readable(source, allow_pickle) as folder:
        model, _, meta = load_model(folder, dtype=dtype)
    aside = output.absolute().parent / f".{output.absolute().name}.{os.getpid()}.part"
    try:
        save_model(aside, model, None, meta, shard_bytes)
        for file in sorted(source.iterdir()):
            if file.is_file() and file.name not in ANEW and file.suffix not in (*PICKLES, ".safetensors"):
                shutil.copy(file, aside / file.name)
        os.replace(aside, output)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return meta
