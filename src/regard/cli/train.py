"""`regard train`: train a model by a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.errors import UserError


def command(
    recipe: Annotated[str, typer.Argument(help="name of a recipe, or path of a recipe file", show_default=False)],
    settings: Annotated[
        list[str] | None,
        typer.Argument(help="output=DIR, and key.path=value for each setting to change", show_default=False),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on from the newest checkpoint in output")] = False,
    json: Annotated[str | None, typer.Option("--json", help="write the result as one JSON document; '-': stdout")] = None,
) -> None:
    """Train a model by a recipe: regard train multi30k-en-fr output=runs/first training.max_minutes=20

    The output folder ends as the finished model. A folder that holds anything is refused and never emptied; --resume goes
    on with a training that was stopped. On several GPUs: torchrun --nproc-per-node 8 -m regard train …
    """
    output, overrides = split_output(recipe, settings or [])
    from regard.training import ranks
    from regard.training.output import claim
    from regard.training.recipe import load_recipe

    loaded = load_recipe(recipe, overrides)
    ranks.join(loaded.training.device == "cpu")
    for line in ranks.first(lambda: claim(output, loaded, resume)):
        if ranks.main():
            typer.echo(f"setting changed: {line}", err=True)
    from regard.training.loop import train

    result, main = train(loaded, output, resume), ranks.main()
    ranks.leave()
    if json is not None and main:
        from regard.files import write_json

        write_json(json, _document(result))


def split_output(recipe: str, settings: list[str]) -> tuple[Path, list[str]]:
    """output=DIR and the other settings; UserError if it is missing or given twice."""
    if recipe.startswith("output=") or ("=" in recipe and not Path(recipe).exists()):
        raise UserError(f"the recipe comes first: regard train NAME {recipe} …")
    outputs = [one.removeprefix("output=") for one in settings if one.startswith("output=")]
    overrides = [one for one in settings if not one.startswith("output=")]
    if len(outputs) != 1 or not outputs[0]:
        said = "is given twice" if len(outputs) > 1 else "is missing"
        raise UserError(f"output=DIR {said}: name one folder for the model, such as output=runs/{Path(recipe).stem}")
    return Path(outputs[0]).expanduser(), overrides


def _document(result: Any) -> dict[str, Any]:
    return {**vars(result), "folder": str(result.folder)}
