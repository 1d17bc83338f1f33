"""Writing pairs as TSV, JSONL or two line files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from regard.errors import UserError
from regard.files import write_text
from regard.text.corpus import Pair


def parts(output: str, source: str, target: str) -> list[Path]:
    """The files that `output` stands for: one .tsv or .jsonl, or PREFIX.source and PREFIX.target. UserError for a name that
    promises another format."""
    path = Path(output).expanduser()
    if path.suffix in (".tsv", ".jsonl"):
        return [path]
    if path.suffix in (".gz", ".xz", ".zst", ".csv", ".parquet", ".json", ".txt"):
        raise UserError(f"{output}: is written as .tsv, as .jsonl, or as PREFIX for PREFIX.{source} and PREFIX.{target}")
    return [path.with_name(f"{path.name}.{side}") for side in (source, target)]


def write_rows(files: Sequence[Path], pairs: Sequence[Pair], source: str, target: str) -> list[Path]:
    """Write `pairs` into what `parts` gave; all files are whole or absent. UserError, before anything is written, for text
    that the format cannot hold (a tab in TSV, a line end in TSV and line files)."""
    if files[0].suffix == ".jsonl":
        rows = [json.dumps({source: pair.source, target: pair.target}, ensure_ascii=False) for pair in pairs]
        contents = ["".join(row + "\n" for row in rows)]
    else:
        tsv = len(files) == 1
        for pair in pairs:
            for character, name in (("\n", "a line end"), ("\r", "a line end"), *((("\t", "a tab"),) if tsv else ())):
                if character in pair.source or character in pair.target:
                    raise UserError(
                        f"line {pair.line} holds {name}, which {'TSV' if tsv else 'a line file'} cannot; write .jsonl"
                    )
        if tsv:
            contents = ["".join(f"{pair.source}\t{pair.target}\n" for pair in pairs)]
        else:
            contents = ["".join(pair.source + "\n" for pair in pairs), "".join(pair.target + "\n" for pair in pairs)]
    for path, content in zip(files, contents, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, content)
    return list(files)


def escaped(text: str) -> str:
    r"""The text on one line without tabs: \\, \n, \r and \t for backslash, line ends and tab."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
