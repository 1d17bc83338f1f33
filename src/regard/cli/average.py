"""regard average: one model from several checkpoints."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.errors import UserError


def command(
    folders: Annotated[list[str], Argument(help="model folders, such as DIR/checkpoints/step-00001000 …")],
    output: Annotated[str | None, Option("--output", "-o", help="new folder for the mean")] = None,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Average the weights of model folders of one description and one tokenizer."""
    named = [folder for folder in folders if folder.startswith("output=")]
    folders = [folder for folder in folders if folder not in named]
    output = output or (named[0].removeprefix("output=") if named else None)
    if output is None:
        raise UserError("say where the mean goes: --output DIR")
    from regard.checkpoints.average import average
    from regard.files import write_json

    average(folders, output)
    print(f"mean of {len(folders)} models in {output}", file=sys.stderr)
    if json is not None:
        write_json(json, {"folder": str(Path(output)), "average_of": folders})
