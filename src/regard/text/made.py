"""Data sets made here from others: turns of a play, long documents with a class, docstrings with their first lines.

Each is written once, as JSONL files of its splits, into a folder that is named by what it was made from.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from inspect import cleandoc
from itertools import pairwise
from pathlib import Path

from regard.files import write_text
from regard.text.download import cache_root
from regard.text.lines import read_lines

Row = dict[str, str]
Splits = dict[str, list[Row]]

SKIPPED = re.compile(r"(^|/)(tests?|testing|idlelib|site-packages|lib2to3|__pycache__)(/|$)")
"""Folders whose docstrings are not read."""
PACKAGES = ("numpy", "matplotlib", "torch", "accelerate", "huggingface_hub", "pydantic", "rich", "yaml", "filelock")
"""Packages that regard needs, whose docstrings are read beside those of the standard library."""
SHORT, LONG = (3, 20), (15, 200)
"""Fewest and most words of a first line, and of what follows it."""


def turns(play: Path, split: str) -> str:
    """Turns of dialogue in Tiny Shakespeare: "turn" is what a speaker says and who is next, "answer" what that one says. The
    first 90 % of the turns are train, the next 5 % val, the last 5 % test."""

    def make() -> Splits:
        speeches = list(_speeches("\n".join(read_lines(play))))
        rows = [
            {"turn": f"{speaker}: {said} {answerer}:", "answer": answer}
            for (speaker, said), (answerer, answer) in pairwise(speeches)
        ]
        cuts = len(rows) * 90 // 100, len(rows) * 95 // 100
        return {"train": rows[: cuts[0]], "val": rows[cuts[0] : cuts[1]], "test": rows[cuts[1] :]}

    return _written("shakespeare-turns", [str(play), _digest([play])], make, split)


def _speeches(text: str) -> Iterator[tuple[str, str]]:
    """Speakers and what they say, line ends as spaces."""
    for part in text.split("\n\n"):
        speaker, _, said = part.strip().partition(":\n")
        if said.strip() and "\n" not in speaker:
            yield speaker.strip(), " ".join(said.split())


def long_documents(files: Sequence[Path], split: str) -> str:
    """The English pages of pythondocs-fr, each of its files one document ("text"), with the top folder it lies in
    ("folder"). Folders of fewer than five files are left out. Of each folder's files, in order of their hash, the first
    sixth (at least one) is test, the next val."""

    def make() -> Splits:
        pages: dict[str, list[str]] = {}
        for path in files:
            for line in read_lines(path):
                text, _, name = line.split("\t")
                pages.setdefault(name, []).append(text)
        folders: dict[str, list[str]] = {}
        for name in sorted(pages, key=lambda name: hashlib.sha256(name.encode()).digest()):
            folders.setdefault(name.rpartition("/")[0].partition("/")[0] or "top", []).append(name)
        made: Splits = {"train": [], "val": [], "test": []}
        for folder, names in sorted(folders.items()):
            held = max(1, len(names) // 6)
            for at, name in enumerate(names if len(names) >= 5 else ()):
                part = "test" if at < held else "val" if at < 2 * held else "train"
                made[part].append({"text": " ".join(pages[name]), "folder": folder})
        for rows in made.values():  # not folder after folder: who reads the first few should meet all
            rows.sort(key=lambda row: hashlib.sha256(row["text"].encode()).digest())
        return made

    return _written("pythondocs-files", [_digest(files)], make, split)


def docstrings(split: str, roots: Sequence[Path] | None = None) -> str:
    """Docstrings of the standard library and of the packages that regard needs: "body" is what follows the first line,
    "summary" that line. A file's docstrings are in one split, by its path's hash: of 100 parts 5 val, 5 test. The data
    differs with the versions that are installed.

    roots: folders of modules instead of this Python's.
    """
    places = [Path(sysconfig.get_path("stdlib")), *(Path(sysconfig.get_path("purelib")) / name for name in PACKAGES)]
    chosen = [place for place in places if place.is_dir()] if roots is None else list(roots)
    installed = sorted(f"{found.name} {found.version}" for found in metadata.distributions() if found.name in PACKAGES)

    def make() -> Splits:
        made: Splits = {"train": [], "val": [], "test": []}
        seen: set[str] = set()
        for root in chosen:
            for path in sorted(root.rglob("*.py")):
                name = path.relative_to(root).as_posix()
                if SKIPPED.search(name):
                    continue
                part = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 100
                for body, summary in _docstrings(path):
                    if body not in seen:
                        seen.add(body)
                        row = {"body": body, "summary": summary}
                        made["val" if part < 5 else "test" if part < 10 else "train"].append(row)
        return made

    return _written("docstrings", [sys.version, *installed, *map(str, chosen)], make, split)


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    """Body and first line of each docstring of a module that has both in good length."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, RecursionError):  # files for other versions, or meant to fail
        return
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        told = ast.get_docstring(node, clean=False)
        summary, _, body = cleandoc(told or "").partition("\n\n")
        summary, body = " ".join(summary.split()), " ".join(body.split())
        counts = len(summary.split()), len(body.split())
        said = summary[:1].isalpha() and "=" not in summary  # no signature, no rule of dashes
        if said and SHORT[0] <= counts[0] <= SHORT[1] and LONG[0] <= counts[1] <= LONG[1]:
            yield body, summary


def _digest(files: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for file in files:
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def _written(name: str, origin: list[str], make: Callable[[], Splits], split: str) -> str:
    """The file of a split, made with the others where they are not there yet."""
    key = hashlib.sha256(json.dumps([2, *origin]).encode()).hexdigest()[:16]
    folder = cache_root() / name / key
    path = folder / f"{split}.jsonl"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"making {name}", file=sys.stderr)
        for part, rows in make().items():
            lines = (json.dumps(row, ensure_ascii=False) for row in rows)
            write_text(folder / f"{part}.jsonl", "".join(f"{line}\n" for line in lines))
    return str(path)
