"""regard extend: new words or a new language's mark for a trained model."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

from typer import Argument, Option

from regard.errors import UserError


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    output: Annotated[str, Option("--output", "-o", help="new folder for the wider model")],
    token: Annotated[list[str] | None, Option(help="a word or a symbol such as <2de> to add; may be repeated")] = None,
    tokens: Annotated[
        str | None, Option(help="file of them, a line each: TOKEN, or TOKEN<tab>TEXT that it is to begin like")
    ] = None,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Add entries to a model's vocabulary. Each begins as the mean of the pieces it has been so far; nothing else changes.
    Train on from the new folder (model.from) so that it learns what they are."""
    from regard.checkpoints.extend import extend
    from regard.evaluation.files import check_writable
    from regard.files import write_json

    check_writable(json)
    entries = [(name, "") for name in token or ()] + ([] if tokens is None else _lines(tokens))
    if not entries:
        raise UserError("nothing to add: give --token NAME or --tokens FILE")
    added = extend(model, output, entries)
    print(f"{len(added):,} entries added in {output}", file=sys.stderr)
    if json != "-":
        for one in added:
            print(f"{one.number}\t{one.name}\t{' '.join(one.pieces)}")
    if json is not None:
        write_json(json, {"folder": output, "added": [asdict(one) for one in added]})


def _lines(path: str) -> list[tuple[str, str]]:
    from regard.text.corpus import read_lines

    found = []
    for number, line in enumerate(read_lines(path), 1):
        name, _, like = line.partition("\t")
        if not line.strip():
            continue
        if not name.strip() or "\t" in like:
            raise UserError(f"{path}, line {number}: should be TOKEN, or TOKEN, a tab and a text that it is like")
        found.append((name.strip(), like.strip()))
    return found
