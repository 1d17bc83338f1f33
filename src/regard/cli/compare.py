"""regard compare: two systems against the same references."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

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
    metrics: Annotated[str, Option(help="bleu,chrf,chrf++,ter,comet, or a metric of evaluate")] = "bleu,chrf,ter",
    tokenize: Annotated[str | None, Option(help="BLEU's tokenizer: 13a, zh, none, intl, char, flores200 …")] = None,
    lowercase: Annotated[bool, Option("--lowercase", help="compare without case")] = False,
    preprocess: Annotated[str, Option(help="steps for sources and references (moses-lc, no-stress)")] = "",
    comet: Annotated[str | None, Option(help="COMET checkpoint that is here already; needs unbabel-comet")] = None,
    train_source: Annotated[str | None, Option(help="source side of the training text: which words are unknown")] = None,
    train_target: Annotated[str | None, Option(help="target side of the training text: how frequent words are")] = None,
    samples: Annotated[int, Option(help="bootstrap resamples, and random shuffles")] = 1000,
    seed: Annotated[int, Option(help="of the resamples")] = 12345,
    buckets: Annotated[str, Option(help="last length of each bucket of sentences")] = "5,10,15,20,25,30",
    worst: Annotated[int, Option(min=0, help="sentences to show where one system is better by most")] = 5,
    num_beams: Annotated[int | None, Option("--num-beams", "--beam-size", help="default: each model's own")] = None,
    allow_empty: Annotated[bool, Option("--allow-empty", help="score empty references too, with a warning")] = False,
    html: Annotated[str | None, Option(help="write both side by side, differences marked, as one page to this file")] = None,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Compare two systems with paired bootstrap, by sentence length and sentence by sentence."""
    _compare(dict(locals()))


def _compare(given: dict[str, Any]) -> None:
    from regard.cli.evaluate import changes, names, untouched
    from regard.evaluation.compare import Comparing, compare
    from regard.evaluation.files import check_writable
    from regard.evaluation.scores import Scoring
    from regard.evaluation.task import task_of_files
    from regard.files import write_json, write_text

    for path in (given["json"], given["html"]):
        check_writable(path)
    files = [given["reference"], *(given["more"] or [])]
    task = task_of_files(given["source"], files, given["source_lang"], given["target_lang"], given["allow_empty"])
    steps = names(given["preprocess"])
    task = task.changed(*changes(steps, task))
    scoring = Scoring(
        task.target_language, given["tokenize"] or untouched(steps), given["lowercase"], given["allow_empty"]
    )  # fmt: skip
    options = Comparing(
        _metrics(given), given["samples"], given["seed"], _edges(given["buckets"]), given["worst"], task.source_language,
        scoring, *_learned(given, task), comet=_comet(given["comet"]),
    )  # fmt: skip
    systems = given["first"], given["second"]
    made = [_translations(system, task.sources, given["num_beams"], steps) for system in systems]
    (one, _), (two, _) = made
    found = compare(task.references, one, two, task.sources, systems, options)
    found = replace(found, costs=[cost for _, cost in made if cost is not None])
    print("\n".join(found.lines()), file=sys.stderr if given["json"] == "-" else sys.stdout)
    if given["html"] is not None:
        from regard.evaluation.report import page

        write_text(Path(given["html"]), page(found, task.references, one, two, task.sources, options))
    if given["json"] is not None:
        write_json(given["json"], found.json())


def _metrics(given: dict[str, Any]) -> list[str]:
    """The metrics that are asked for; a COMET checkpoint asks for COMET."""
    asked = given["metrics"].split(",")
    if given["comet"] is None and "comet" in [name.strip() for name in asked]:
        raise UserError("COMET needs a checkpoint that is here already: give --comet FILE (and unbabel-comet installed)")
    return asked if given["comet"] is None else [*asked, "comet"]


def _comet(checkpoint: str | None) -> Any:
    from regard.evaluation.comet import Comet

    return None if checkpoint is None else Comet(checkpoint)


def _learned(given: dict[str, Any], task: Any) -> tuple[Any, Any]:
    """The words of the source side of the training text, and how often its target side has each."""
    from collections import Counter

    from regard.evaluation.breakdown import words_of
    from regard.evaluation.scores import Scoring
    from regard.text.corpus import read_lines

    if given["train_source"] is not None and given["source"] is None:
        raise UserError("--train-source tells which source words are unknown: give --source FILE as well")
    found = []
    for side, language in (("train_source", task.source_language), ("train_target", task.target_language)):
        path = given[side]
        words = None if path is None else words_of(read_lines(path), Scoring(language))
        found.append(None if words is None else Counter(word for line in words for word in line))
    return found[0], found[1]


def _edges(text: str) -> list[int]:
    try:
        return [int(edge) for edge in text.split(",") if edge.strip()]
    except ValueError as error:
        raise UserError(f"--buckets takes lengths such as 5,10,20, not {text!r}") from error


def _translations(
    system: str, sources: Sequence[str] | None, num_beams: int | None, steps: list[str]
) -> tuple[list[str], Any]:
    """The lines of a file, or what the model in a folder makes of the sources and what that costs."""
    from regard.text.corpus import read_lines

    if not Path(system).is_dir():
        return list(read_lines(system)), None
    if sources is None:
        raise UserError(f"{system} is a model folder: give it something to translate with --source FILE")
    from regard.evaluation.cost import measured
    from regard.evaluation.files import one_line
    from regard.translator import load

    translator: Any = load(system)
    wanted = list(translator.meta.get("preprocess") or [])
    if wanted != steps:
        said = ",".join(wanted) or "''"
        raise UserError(f"{system} was trained on text after the steps {wanted}: give --preprocess {said}")
    texts = list(sources)
    made, cost = measured(system, translator.model, len(texts), lambda: translator.translate(texts, num_beams=num_beams))
    return [one_line(text) for text in made], cost
