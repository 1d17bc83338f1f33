"""regard compare: two systems against the same references."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from regard.errors import UserError


def command(
    reference: Annotated[str, Argument(help="file of references, a line a sentence")],
    first: Annotated[str, Argument(help="translations of the first system: a file, or a model folder")],
    second: Annotated[str, Argument(help="translations of the second system: a file, or a model folder")],
    source: Annotated[
        str | None, Option("--source", "-s", help="file of sources: lengths, and what models translate")
    ] = None,
    more: Annotated[
        list[str] | None, Option("--reference", "-r", help="a further file of references; may be repeated")
    ] = None,
    source_lang: Annotated[str | None, Option(help="source language")] = None,
    target_lang: Annotated[str | None, Option(help="target language; chooses BLEU's tokenizer")] = None,
    metrics: Annotated[str, Option(help="bleu,chrf,chrf++,ter")] = "bleu,chrf",
    tokenize: Annotated[str | None, Option(help="BLEU's tokenizer: 13a, zh, none, intl, char, flores200 …")] = None,
    lowercase: Annotated[bool, Option("--lowercase", help="compare without case")] = False,
    preprocess: Annotated[str, Option(help="steps for sources and references (moses-lc, no-stress)")] = "",
    samples: Annotated[int, Option(help="bootstrap resamples")] = 1000,
    seed: Annotated[int, Option(help="of the resamples")] = 12345,
    buckets: Annotated[str, Option(help="last length of each bucket of sentences")] = "5,10,15,20,25,30",
    worst: Annotated[int, Option(min=0, help="sentences to show where one system is better by most")] = 5,
    num_beams: Annotated[int | None, Option("--num-beams", "--beam-size", help="default: each model's own")] = None,
    allow_empty: Annotated[bool, Option("--allow-empty", help="score empty references too, with a warning")] = False,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Compare two systems with paired bootstrap, by sentence length and sentence by sentence."""
    from regard.cli.evaluate import changes, names, untouched
    from regard.evaluation.compare import Comparing, compare
    from regard.evaluation.files import check_writable
    from regard.evaluation.scores import Scoring
    from regard.evaluation.task import task_of_files
    from regard.files import write_json

    check_writable(json)
    task = task_of_files(source, [reference, *(more or [])], source_lang, target_lang, allow_empty)
    steps = names(preprocess)
    task = task.changed(*changes(steps, task))
    scoring = Scoring(task.target_language, tokenize or untouched(steps), lowercase, allow_empty)
    options = Comparing(
        metrics.split(","), samples, seed, _edges(buckets), worst, source_language=task.source_language, scoring=scoring
    )
    one, two = (_translations(system, task.sources, num_beams, steps) for system in (first, second))
    found = compare(task.references, one, two, task.sources, (first, second), options)
    print("\n".join(found.lines()), file=sys.stderr if json == "-" else sys.stdout)
    if json is not None:
        write_json(json, found.json())


def _edges(text: str) -> list[int]:
    try:
        return [int(edge) for edge in text.split(",") if edge.strip()]
    except ValueError as error:
        raise UserError(f"--buckets takes lengths such as 5,10,20, not {text!r}") from error


def _translations(system: str, sources: Sequence[str] | None, num_beams: int | None, steps: list[str]) -> list[str]:
    """The lines of a file, or what the model in a folder makes of the sources."""
    from regard.text.corpus import read_lines

    if not Path(system).is_dir():
        return list(read_lines(system))
    if sources is None:
        raise UserError(f"{system} is a model folder: give it something to translate with --source FILE")
    from regard.evaluation.files import one_line
    from regard.translator import load

    translator = load(system)
    wanted = list(translator.meta.get("preprocess") or [])
    if wanted != steps:
        said = ",".join(wanted) or "''"
        raise UserError(f"{system} was trained on text after the steps {wanted}: give --preprocess {said}")
    return [one_line(text) for text in translator.translate(list(sources), num_beams=num_beams)]
