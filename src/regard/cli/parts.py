"""Large jobs in parts: many files or a huge one, by several processes that need not know each other, restartable.

A part is some thousand lines of a file; its answers are a file in the folder OUTPUT.parts, whole or not there. Process r of
n does every n-th part and passes over those that are there; whoever finds all parts of a file done puts them together.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock

from regard.cli.streams import WINDOW
from regard.errors import UserError
from regard.files import whole, write_json
from regard.text.lines import read_lines
from regard.text.remote import at_hand, expand, identity, is_remote

SIZE = 10_000
"""Lines of a part, where nothing else is said."""
PIECE = 1 << 16
"""Bytes of a file of weights that are looked at in three places."""
WHAT, LOCK = "parts.json", ".lock"

Answer = Callable[[Iterator[Sequence[str]], BinaryIO, int], None]
"""Writes the answers to lists of lines into a file; the number says how many lines of the input stood before."""


def place() -> tuple[int, int]:
    """Which of how many processes this is, as torchrun or SLURM's script told it."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def jobs_of(pattern: str | None, output: str | None) -> list[tuple[str, Path]]:
    """Input files and where their answers go: one file into another, or those that a pattern names into a folder. UserError
    where files or places are missing."""
    if pattern in (None, "-") or output in (None, "-"):
        raise UserError("parts are of files: give --input FILE (or a pattern with *) and --output")
    assert pattern is not None
    assert output is not None
    found, goal = expand(pattern), Path(output)
    if len(found) == 1 and "*" not in pattern and not goal.is_dir():
        return [(found[0], goal)]
    if goal.exists() and not goal.is_dir():
        raise UserError(f"--output {output}: is a file, and --input names {len(found)}: give a folder")
    names = [name.rstrip("/").rpartition("/")[2] for name in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"--input: two files are called {twice}, and their answers would be")
    goal.mkdir(parents=True, exist_ok=True)
    return [(name, goal / own) for name, own in zip(found, names)]


@dataclass
class Parts:
    """One file's parts. said: what else the answers depend on; size: lines of a part."""

    source: str
    goal: Path
    size: int
    said: dict[str, Any]

    @property
    def folder(self) -> Path:
        """Where finished parts wait for the others."""
        return self.goal.with_name(f"{self.goal.name}.parts")

    def open(self) -> bool:
        """Make the folder, or find it; False where the answers are complete already. UserError: the parts that are there
        are of another input, model or option."""
        if self.goal.exists() and not self.folder.is_dir():
            return False
        told = {"input": identity(self.source), "size": self.size, **self.said}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()
        self.folder.mkdir(parents=True, exist_ok=True)
        with FileLock(self.folder / LOCK):
            if self.goal.exists():
                return False
            path = self.folder / WHAT
            if not path.exists():
                write_json(path, told | {"digest": digest})
            elif json.loads(path.read_text(encoding="utf-8"))["digest"] != digest:
                raise UserError(f"{self.folder}: holds parts of another input, model or options; delete it to begin anew")
        return True

    def run(self, rank: int, world: int, answer: Answer) -> int:
        """Do this process's share of what is not done yet, and put all together if all is done; gives the parts done."""
        count = done = 0
        with at_hand(self.source) as path:
            lines = iter(read_lines(path))
            while piece := list(islice(lines, self.size)):
                goal = self._part(count)
                if count % world == rank and not goal.exists():
                    with whole(goal) as file:
                        answer(_chunks(piece), file, count * self.size)
                    done += 1
                count += 1
        self._join(count)
        return done

    def _part(self, number: int) -> Path:
        return self.folder / f"{number:08d}"

    def _join(self, count: int) -> None:
        if not self.folder.is_dir():
            return
        with FileLock(self.folder / LOCK):
            if not self.goal.exists():
                if not all(self._part(number).exists() for number in range(count)):
                    return
                with whole(self.goal) as file:
                    for number in range(count):
                        with self._part(number).open("rb") as part:
                            shutil.copyfileobj(part, file, 1 << 20)
        # Also by who comes late, for the lock that he asked for has made the folder anew.
        shutil.rmtree(self.folder, ignore_errors=True)


def _chunks(piece: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(piece), WINDOW):
        yield piece[at : at + WINDOW]


def own_device(told: str | None) -> str | None:
    """The device of this process: what the command line says, or of several on a machine each its own GPU."""
    if told is not None or place()[1] == 1:
        return told
    import torch

    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"


def whereabouts(model: str) -> list[str]:
    """A model's name such that two folders of one name are told apart, and so is one that was trained anew in its place: by
    a few pieces of its weights."""
    folder = Path(model)
    if is_remote(model) or not folder.is_dir():
        return [model]
    seen = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        seen.update(f"{path.name} {size}".encode())
        with path.open("rb") as file:
            for place in (0, size // 2, max(size - PIECE, 0)):
                file.seek(place)
                seen.update(file.read(PIECE))
    return [str(folder.resolve()), seen.hexdigest()]
