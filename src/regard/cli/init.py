"""`regard init`: write a commented recipe for one's own parallel text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.errors import UserError


def command(
    data: Annotated[
        list[str],
        typer.Argument(
            help="pairs: a .tsv, .jsonl or .parquet file, or two line files (source, then target); plain or packed"
        ),
    ],
    source: Annotated[str, typer.Option(help="language (or column) that is read", show_default=False)],
    target: Annotated[str, typer.Option(help="language (or column) that is written", show_default=False)],
    valid: Annotated[str | None, typer.Option(help="pairs to watch while training; by default split off DATA")] = None,
    test: Annotated[str | None, typer.Option(help="pairs to score at the end; by default split off DATA")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="the recipe to write")] = "recipe.yaml",
    json: Annotated[
        str | None, typer.Option("--json", help="write what was found as one JSON document; '-': stdout")
    ] = None,
) -> None:
    """Write a commented recipe for your own text: regard init my.tsv --source en --target fr

    Cleans the text, splits off validation and test pairs into files beside the recipe, and chooses the size of the model,
    the vocabulary and the training from the size of the corpus. Nothing is overwritten.
    """
    if len(data) > 2:
        raise UserError(f"{len(data)} files given: name one file of pairs, or two line files (source, then target)")
    from regard.training.initial_recipe import Wish, write_initial_recipe

    path = Path(output).expanduser()
    written = write_initial_recipe(Wish(",".join(data), source, target, path, valid, test))
    for line in written.report.lines():
        typer.echo(line, err=True)
    its = written.recipe
    counts = ", ".join(f"{count:,} {name}" for name, count in written.counts.items())
    typer.echo(f"{counts} pairs; model {its.model.size}, vocabulary {its.tokenizer.vocab_size:,}", err=True)
    for file in written.files:
        typer.echo(f"wrote {file}", err=True)
    typer.echo(f"next: regard train {path} output=runs/{path.stem}", err=True)
    if json is not None:
        from regard.files import write_json

        document = {"recipe": str(path), "files": [str(file) for file in written.files], "pairs": written.counts}
        write_json(json, document | {"report": written.report.json(), "settings": its.model_dump()})
