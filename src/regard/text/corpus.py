"""Parallel corpora: line files, TSV, JSONL and parquet to pairs, strict about alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.files import parsed
from regard.text.lines import base_name, read_lines

__all__ = ["Pair", "PairFiles", "Table", "open_corpus", "read_lines", "read_pairs", "resolve"]


@dataclass(frozen=True)
class Pair:
    """One example; `line` counts from 1 in its file (a row of a parquet file, likewise)."""

    source: str
    target: str
    line: int


@dataclass(frozen=True)
class PairFiles:
    """Two files of which line n of one belongs to line n of the other."""

    source: str
    target: str


@dataclass(frozen=True)
class Table:
    """A TSV file and how to read it: columns by number from 1, or by name if the first line is a `header`; `edit` makes
    (source, target) of a row's two texts and all its columns."""

    path: str
    source: int | str = 1
    target: int | str = 2
    header: bool = False
    edit: Callable[[str, str, list[str]], tuple[str, str]] | None = None


Spec = PairFiles | Table | str | Path


def open_corpus(spec: Spec, source: str, target: str, root: str | Path | None = None) -> list[Pair]:
    """All pairs of a corpus. `spec`: PairFiles, Table, the path of a .tsv, .jsonl or .parquet file, "SOURCE,TARGET" (two
    line files), or PREFIX where PREFIX.source and PREFIX.target exist; relative paths start at `root`. UserError if a file
    is missing, unequal, malformed or empty."""
    pairs = list(read_pairs(resolve(spec, source, target, root), source, target))
    if not pairs:
        raise UserError(f"{name_of(spec)}: holds no pairs")
    return pairs


def read_pairs(spec: Spec, source: str, target: str) -> Iterator[Pair]:
    """Pairs one by one, as `open_corpus` reads them; `source` and `target` are languages or names of columns or keys."""
    spec = resolve(spec, source, target)
    if isinstance(spec, PairFiles):
        return _line_files(spec)
    if isinstance(spec, Table):
        return _table(spec)
    kind = _kind(Path(spec))
    if kind == "parquet":
        return _parquet(Path(spec), source, target)
    if kind == "jsonl":
        return _jsonl(Path(spec), source, target)
    return _table(_with_header(Table(str(spec)), source, target))


def resolve(spec: Spec, source: str, target: str, root: str | Path | None = None) -> Spec:
    """`spec` with its paths joined to `root`, and two-file specs in words turned into PairFiles. UserError if a file is
    missing."""
    base = Path(root) if root is not None else Path()
    if isinstance(spec, PairFiles):
        return PairFiles(_present(base / spec.source), _present(base / spec.target))
    if isinstance(spec, Table):
        return replace(spec, path=_present(base / spec.path))
    path = base / spec
    if path.is_file():
        return str(path)
    parts = str(spec).split(",")
    if len(parts) == 2:
        return PairFiles(_present(base / parts[0].strip()), _present(base / parts[1].strip()))
    for ending in ("", ".gz", ".xz", ".zst"):
        sides = [Path(f"{path}.{language}{ending}") for language in (source, target)]
        if all(side.is_file() for side in sides):
            return PairFiles(str(sides[0]), str(sides[1]))
    if path.is_dir():
        raise UserError(f"{path}: is a folder; give a file, SOURCE,TARGET, or a prefix such as {path / 'train'}")
    raise UserError(f"{path}: no such file (nor {path}.{source} and {path}.{target})")


def name_of(spec: Spec) -> str:
    """A corpus's name for a message."""
    if isinstance(spec, PairFiles):
        return f"{spec.source}, {spec.target}"
    return spec.path if isinstance(spec, Table) else str(spec)


def _present(path: Path) -> str:
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    return str(path)


def _line_files(files: PairFiles) -> Iterator[Pair]:
    count = [0, 0]
    missing = object()
    for number, (source, target) in enumerate(
        zip_longest(read_lines(files.source), read_lines(files.target), fillvalue=missing), 1
    ):
        count[0] += source is not missing
        count[1] += target is not missing
        if count[0] == count[1]:
            yield Pair(str(source), str(target), number)
    if count[0] != count[1]:
        raise UserError(
            f"{files.source} has {count[0]} lines and {files.target} has {count[1]}; two line files must be equally long"
        )


def _kind(path: Path) -> str:
    name = base_name(path)
    with path.open("rb") as stream:
        if stream.read(4) == b"PAR1":
            return "parquet"
    if name.endswith(".parquet"):
        raise UserError(f"{path}: is not a parquet file; fetch it again")
    if name.endswith((".jsonl", ".ndjson", ".json")):
        return "jsonl"
    if name.endswith(".csv"):
        raise UserError(f"{path}: CSV is not read; write it as TSV (two columns with a tab between) or JSONL")
    first = next(read_lines(path), "")
    if name.endswith((".tsv", ".tab")) or "\t" in first:
        return "tsv"
    if first.lstrip().startswith("{"):
        return "jsonl"
    raise UserError(
        f"{path}: has no tab in line 1; a corpus is a TSV, JSONL or parquet file, or two line files SOURCE,TARGET"
    )


def _with_header(table: Table, source: str, target: str) -> Table:
    """The table read by the names in its first line if that names both columns."""
    cells = next(read_lines(table.path), "").split("\t")
    if source != target and source in cells and target in cells:
        return replace(table, source=source, target=target, header=True)
    return table


def _table(table: Table) -> Iterator[Pair]:
    rows = enumerate(read_lines(table.path), 1)
    columns = [table.source, table.target]
    if table.header:
        names = next(rows, (1, ""))[1].split("\t")
        for name in columns:
            if name not in names:
                raise UserError(f"{table.path}:1: has no column {name!r}; its columns are {', '.join(names)}")
        columns = [names.index(str(name)) + 1 for name in columns]
    first, second = int(columns[0]), int(columns[1])
    for number, line in rows:
        cells = line.split("\t")
        if line and len(cells) < max(first, second):
            found = f"has {len(cells)} column{'s' if len(cells) > 1 else ''}"
            raise UserError(f"{table.path}:{number}: {found}, at least {max(first, second)} with tabs between are needed")
        if not line:
            cells = [""] * max(first, second)
        source, target = cells[first - 1], cells[second - 1]
        if table.edit is not None and line:
            source, target = table.edit(source, target, cells)
        yield Pair(source, target, number)


def _jsonl(path: Path, source: str, target: str) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            record = parsed(line)
        except (ValueError, RecursionError) as error:  # nested without end
            raise UserError(f"{path}:{number}: is not JSON ({error}); JSONL has one object a line") from None
        yield Pair(*_sides(record, source, target, f"{path}:{number}"), number)


def _sides(record: Any, source: str, target: str, where: str) -> tuple[str, str]:
    """Source and target of a record by the given names, or by src and tgt or source and target; a member "translation" is
    looked into."""
    if isinstance(record, dict) and isinstance(record.get("translation"), dict):
        record = record["translation"]
    if not isinstance(record, dict):
        raise UserError(f"{where}: is not an object with {source!r} and {target!r}")
    for names in ((source, target), ("src", "tgt"), ("source", "target")):
        if all(name in record for name in names):
            sides = record[names[0]], record[names[1]]
            if not all(isinstance(side, str) for side in sides):
                raise UserError(f"{where}: {names[0]!r} and {names[1]!r} must both be text")
            return sides
    raise UserError(f"{where}: has {', '.join(map(repr, record)) or 'nothing'}; {source!r} and {target!r} are needed")


def _parquet(path: Path, source: str, target: str) -> Iterator[Pair]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UserError(f"{path}: reading parquet needs pyarrow; install it with pip install 'regard[parquet]'") from None
    number = 0
    try:
        with ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=4096):
                for record in batch.to_pylist():
                    number += 1
                    yield Pair(*_sides(record, source, target, f"{path}:{number}"), number)
    except (ArrowException, OSError, ValueError) as error:  # text that is not UTF-8 is a ValueError
        raise UserError(f"{path}: cannot be read as parquet ({' '.join(str(error).split())})") from None
