"""Tensors on disk: safetensors files, one or several with an index. No pickle is ever opened."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from regard.errors import UserError
from regard.files import parsed, read_plain, write_json

FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".npz", ".h5", ".msgpack")
SHARD_BYTES = 5_000_000_000


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file. UserError: missing, no ordinary file, too large, not UTF-8, or wrong in line so-and-so."""
    try:
        found = parsed(read_plain(path).decode("utf-8"))
    except FileNotFoundError:
        raise UserError(f"{path.parent}: there is no {path.name} in this folder, so it is no model folder") from None
    except json.JSONDecodeError as error:
        raise UserError(f"{path}:{error.lineno}: not JSON ({error.msg})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 at byte {error.start}") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (RecursionError, ValueError) as error:  # nested without end, or a number of thousands of digits
        raise UserError(f"{path}: not JSON that anybody wrote ({error})") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}: should hold one JSON object, has {type(found).__name__}")
    return found


class TensorFiles:
    """The tensors of a model folder. shapes: of every tensor, by name, read from the files' heads alone."""

    def __init__(self, folder: Path) -> None:
        self.where = folder / FILE
        if self.where.is_file():
            files = [self.where]
        elif (folder / INDEX).is_file():
            self.where = folder / INDEX
            files = [folder / name for name in listed(self.where)]
        else:
            files = []
            self._refuse(folder)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self._files: dict[str, Any] = {}
        for file in files:
            self._open(file)

    def _refuse(self, folder: Path) -> None:
        pickles = sorted(f.name for f in folder.iterdir() if f.suffix in PICKLES)
        if pickles:
            raise UserError(
                f"{folder}: {pickles[0]} is not opened, because such files can run code; only .safetensors is read"
                " (`regard convert FOLDER NEW --allow-pickle` takes the tensors out of pytorch_model.bin and runs nothing)"
            )
        raise UserError(f"{folder}: there is no {FILE} in this folder")

    def _open(self, path: Path) -> None:
        try:
            if path.exists() and not path.is_file():
                raise UserError(f"{path}: is not a file")
            file = safe_open(path, framework="pt", device="cpu")
            for name in file.keys():  # noqa: SIM118 - not a dictionary
                if name in self._files:
                    raise UserError(f"{path}: holds {name}, and so does a file before it: which is meant?")
                self._files[name] = file
                self.shapes[name] = tuple(file.get_slice(name).get_shape())
        except FileNotFoundError:
            raise UserError(f"{self.where}: names {path.name}, which is missing") from None
        except OSError as error:
            raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
        except UnicodeEncodeError:
            raise UserError(f"{self.where}: names {path.name!a}, which no file is called") from None
        except SafetensorError as error:
            raise UserError(f"{path}: damaged or no safetensors file ({error})") from None

    def read(self, name: str) -> Tensor:
        """One tensor, as stored, on the CPU. A copy: where it lies in the file is not aligned, and then the last bits of
        products differ."""
        return self._files[name].get_tensor(name).clone()


def listed(index: Path) -> list[str]:
    """The files that an index names. UserError: it is damaged, or a name leads out of its folder."""
    listed = read_json(index).get("weight_map")
    if not isinstance(listed, dict) or not listed or not all(isinstance(name, str) for name in listed.values()):
        raise UserError(f"{index}: weight_map should say for each tensor the name of its file")
    names = sorted(set(listed.values()))
    for name in names:
        if Path(name).name != name or "\0" in name:
            raise UserError(f"{index}: names {name!r}, which leads out of the folder")
    return names


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """One safetensors file. OSError, as of any other file, where the disk does not take it."""
    try:
        save_file(dict(tensors), path, metadata={"format": "pt"})
    except SafetensorError as error:
        code = re.search(r"\bcode: (\d+)|os error (\d+)", str(error))
        number = int(code[1] or code[2]) if code else errno.EIO
        raise OSError(number, os.strerror(number) if code else str(error), str(path)) from None


def write_tensors(folder: Path, tensors: Mapping[str, Tensor], shard_bytes: int = SHARD_BYTES) -> list[str]:
    """Write tensors into one file, or into several with an index where they are larger than shard_bytes. Gives the
    names of the files. Tensors must not share memory in part; each is stored whole."""
    from huggingface_hub import split_torch_state_dict_into_shards

    whole = {name: t.detach().cpu().clone(memory_format=torch.contiguous_format) for name, t in tensors.items()}
    split = split_torch_state_dict_into_shards(
        whole, filename_pattern="model{suffix}.safetensors", max_shard_size=shard_bytes
    )
    for file, names in split.filename_to_tensors.items():
        save_tensors({name: whole[name] for name in names}, folder / file)
    files = list(split.filename_to_tensors)
    if split.is_sharded:
        index = {"metadata": split.metadata, "weight_map": split.tensor_to_filename}
        write_json(folder / INDEX, index)
        files.append(INDEX)
    return files
