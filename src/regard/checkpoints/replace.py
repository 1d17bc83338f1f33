"""A folder's files replaced by others in an order in which being killed midway leaves no mixture of the two."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.errors import UserError
from regard.files import sync


@contextmanager
def replaced(folder: Path, seal: str, ours: Callable[[str], bool]) -> Iterator[Path]:
    """A new folder beside `folder`, which takes its place, or whose files do, once the block ends without an error.

    seal: the file without which the folder counts as none; it goes first and comes last. ours: by name, which old files
    go; all others stay. UserError: the folder cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; a model needs a folder")
    new = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        new = folder.absolute().parent / f".{folder.absolute().name}.{os.getpid()}.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        yield new
        for file in new.iterdir():
            file.chmod(new.stat().st_mode & 0o666)  # safetensors writes for the owner alone
            sync(file)
        sync(new)
        put(new, folder, seal, ours)
        sync(folder.parent)
    except OSError as error:
        raise UserError(f"{folder}: cannot write the model ({error.strerror or error})") from error
    finally:
        if new is not None:
            shutil.rmtree(new, ignore_errors=True)


def put(new: Path, folder: Path, seal: str, ours: Callable[[str], bool]) -> None:
    """Give a folder the files of a new one (see `replaced`). Whoever is killed here leaves the old files, or the new ones,
    or a folder without its seal; then the new ones are all where `cut_off` says."""
    if not folder.exists() or not any(folder.iterdir()):
        os.replace(new, folder)
        return
    names = sorted((file.name for file in new.iterdir()), key=lambda name: name == seal)
    kept = new.with_suffix(".whole")
    shutil.rmtree(kept, ignore_errors=True)
    os.replace(new, kept)
    (folder / seal).unlink(missing_ok=True)
    sync(folder)
    for file in [file for file in folder.iterdir() if file.name not in names and ours(file.name)]:
        file.unlink()
    for name in names:
        if name == seal:
            sync(folder)
        twin = kept / f".{name}.part"
        try:
            os.link(kept / name, twin)
        except OSError:  # a file system without a second name for a file
            shutil.copy2(kept / name, twin)
            sync(twin)
        os.replace(twin, folder / name)
    sync(folder)
    for place in cut_off(folder):
        shutil.rmtree(place, ignore_errors=True)


def cut_off(folder: Path) -> list[Path]:
    """Where the new files of saves are that did not come to their end."""
    return sorted(folder.absolute().parent.glob(f".{glob.escape(folder.absolute().name)}.*.whole"))
