"""regard lab: the claims of the attention notes, measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.labs.frame.lab import Setting
    from regard.labs.frame.values import Result


def command(
    name: Annotated[
        str, Argument(help="name of a lab; list: all of them; all: run them; schema: the JSON schema of a result")
    ],
    broken: Annotated[bool, Option("--break", help="sabotage the mechanism: the verdict must be another one")] = False,
    fast: Annotated[bool, Option("--fast", help="smaller, for a check in seconds")] = False,
    full: Annotated[bool, Option("--full", help="as much as there is, however long it takes")] = False,
    seed: Annotated[int, Option(help="of everything that is drawn")] = 0,
    threads: Annotated[int | None, Option(min=1, help="threads of the CPU")] = None,
    lang: Annotated[str, Option("--lang", help="language of the terminal: en or zh; files have both")] = "en",
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
    output: Annotated[
        str | None, Option("--output", "-o", help="folder for NAME.json, NAME.svg, NAME.png, and of all labs index.html")
    ] = None,
) -> None:
    """Measure a claim of the attention notes, with a control that must behave the other way; the verdict is computed.

    Exit code 1: the verdict is not the documented one; with --break: the sabotage was not caught.
    """
    if fast and full:
        raise UserError("--fast and --full: choose one")
    if lang not in ("en", "zh"):
        raise UserError(f"--lang is en or zh, not {lang!r}")
    from regard import labs
    from regard.files import write_json
    from regard.labs.frame.lab import Setting
    from regard.labs.frame.values import schema

    if name == "schema":
        write_json(json or "-", schema())
        return
    if name == "list":
        _list(lang, json)
        return
    setting = Setting(broken, "fast" if fast else "full" if full else "usual", seed)
    chosen = labs.names() if name == "all" else [labs.find(name).name]
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
    results = _run(chosen, setting, lang, sys.stderr if json == "-" else sys.stdout, name == "all")
    if output is not None:
        _write(results, Path(output), name == "all")
    if json is not None and name == "all":
        write_json(json, [its.json_value() for its in results], items=True)
    elif json is not None:
        write_json(json, results[0].json_value())
    if not all(its.as_documented for its in results):
        raise Exit(1)


def _list(language: str, json: str | None) -> None:
    from regard import labs
    from regard.files import write_json
    from regard.labs.frame.table import grid
    from regard.labs.frame.words import FRAME, VERDICTS

    every = labs.every()
    if json is not None:
        told = [
            {
                "number": lab.number,
                "name": lab.name,
                "title": lab.title.model_dump(),
                "quotes": [quote.model_dump() for quote in lab.quotes],
                "expected": lab.expected,
                "sabotage": lab.sabotage.model_dump(),
            }
            for lab in every
        ]
        write_json(json, told)
    if json != "-":
        head = ["", FRAME["contents"].say(language), "", FRAME["expected"].say(language)]
        body = [[f"L{its.number}", its.name, its.title.say(language), VERDICTS[its.expected].say(language)] for its in every]
        print("\n".join(grid(head, body, [False] * 4)))


def _run(chosen: list[str], setting: Setting, language: str, out: object, many: bool) -> list[Result]:
    """Each lab's table as soon as it is there, and at the end a line for each of many."""
    from regard import labs
    from regard.labs.frame.lab import run
    from regard.labs.frame.table import lines, summary

    results = []
    for lab in sorted((labs.find(name) for name in chosen), key=lambda lab: lab.number):
        results.append(run(lab, setting))
        print("\n".join([*lines(results[-1], language), ""]), file=out, flush=True)  # type: ignore[arg-type]
    if many:
        print("\n".join(summary(results, language)), file=out)  # type: ignore[arg-type]
    return results


def _write(results: list[Result], folder: Path, many: bool) -> None:
    from regard.files import write_json, write_text
    from regard.labs.frame.page import page
    from regard.labs.frame.picture import write_pictures

    folder.mkdir(parents=True, exist_ok=True)
    for its in results:
        write_json(folder / f"{its.lab}.json", its.json_value())
        if its.plots:
            write_pictures(its, folder)
    if many:
        write_text(folder / "index.html", page(results))
        print(f"report: {folder / 'index.html'}", file=sys.stderr)
