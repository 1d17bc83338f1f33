"""Files of a corpus wherever they are: named by patterns, here or at an address that fsspec opens (s3://, hf://, https://)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from glob import glob, has_magic
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.text.corpus import Pair, PairFiles, Table, read_pairs, resolve

Files = tuple[str, ...]
"""One file of pairs, or two line files that belong together."""


def is_remote(name: str) -> bool:
    """Whether a name is an address and no path."""
    return "://" in name


def expand(pattern: str) -> list[str]:
    """The files that a path or address names, in order; * and ? stand for any characters. UserError where there is none."""
    if is_remote(pattern):
        system, path = _system(pattern)
        found = sorted(system.glob(path)) if has_magic(path) else [path] if system.exists(path) else []
        named = [str(system.unstrip_protocol(one)) for one in found]
    else:
        named = sorted(glob(pattern, recursive=True)) if has_magic(pattern) else [pattern]
        named = [one for one in named if Path(one).is_file()]
    if not named:
        raise UserError(f"{pattern}: no such file")
    return named


def files_of(train: str, source: str, target: str) -> list[Files]:
    """What `data.train` names, with patterns: files of pairs, or with a comma between as many line files of either side.
    UserError if a file is missing, or one side has more files."""
    if not has_magic(train) and not is_remote(train):
        spec = resolve(train, source, target)
        return [(spec.source, spec.target)] if isinstance(spec, PairFiles) else [(_path(spec),)]
    sides = [expand(part.strip()) for part in train.split(",")]
    if len(sides) > 2 or len({len(side) for side in sides}) != 1:
        raise UserError(f"{train}: names {' and '.join(str(len(side)) for side in sides)} files; line files come in twos")
    return list(zip(*sides))


def _path(spec: Any) -> str:
    return spec.path if isinstance(spec, Table) else str(spec)


def identity(name: str) -> list[Any]:
    """What tells a file from another of the same name: its size, and when it changed."""
    if is_remote(name):
        system, path = _system(name)
        return [name, str(system.ukey(path))]
    told = Path(name).stat()
    return [str(Path(name).resolve()), told.st_size, told.st_mtime_ns]


def pairs_of(files: Files, source: str, target: str) -> Iterator[Pair]:
    """Their pairs one by one; a file from elsewhere lies on this disk only while it is read."""
    with ExitStack() as stack:
        paths = [str(stack.enter_context(at_hand(name))) for name in files]
        yield from read_pairs(paths[0] if len(paths) == 1 else PairFiles(paths[0], paths[1]), source, target)


@contextmanager
def at_hand(name: str) -> Iterator[Path]:
    """A file as a path on this machine: itself, or a copy that goes away again. UserError if it cannot be fetched."""
    if not is_remote(name):
        yield Path(name)
        return
    with tempfile.TemporaryDirectory(prefix="regard-") as folder:
        path = Path(folder) / name.rstrip("/").rpartition("/")[2]
        system, place = _system(name)
        try:
            with system.open(place, "rb") as far, path.open("wb") as near:
                shutil.copyfileobj(far, near, 1 << 20)
        except Exception as error:  # each kind of address has its own
            raise UserError(f"{name}: cannot be fetched ({' '.join(str(error).split())})") from None
        yield path


def _system(name: str) -> tuple[Any, str]:
    """The file system of an address, and the place in it. UserError: what opens it is not installed."""
    import fsspec

    try:
        return fsspec.core.url_to_fs(name)
    except (ImportError, ValueError) as error:
        raise UserError(f"{name}: cannot be opened ({' '.join(str(error).split())})") from None
