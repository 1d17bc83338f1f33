"""regard plan: what a recipe will cost, before running it."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument, Option


def command(
    recipe: Annotated[str, Argument(help="name of a recipe, or path of a recipe file")],
    settings: Annotated[list[str] | None, Argument(help="key.path=value for each setting to change")] = None,
    steps: Annotated[int, Option(min=1, help="training steps to time")] = 8,
    machines: Annotated[
        str | None, Option(help="YAML file of GPUs (count, memory, bandwidths, peak): what training there would cost")
    ] = None,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Parameters, memory, products a token and expected time of a recipe, by timing a few steps on its own data."""
    from regard.files import write_json
    from regard.training.recipe import load_recipe

    # an output folder may stand in the line, so that "train" becomes "plan" by one word
    overrides = [setting for setting in settings or [] if not setting.startswith("output=")]
    loaded = load_recipe(recipe, overrides)
    from regard.training import machines as others
    from regard.training.plan import plan

    there = None if machines is None else others.read_machines(machines)
    found = plan(loaded, steps)
    lines, document = found.lines(), found.json()
    if there is not None:
        needs = others.needs_of(loaded, found)
        lines += others.lines(needs, there)
        document["elsewhere"] = others.document(needs, there)
    print("\n".join(lines), file=sys.stderr if json == "-" else sys.stdout)
    if json is not None:
        write_json(json, document)
