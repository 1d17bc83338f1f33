"""regard evaluate: score a model, or translations that are already there."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.evaluation.evaluate import Evaluating, Evaluation
    from regard.evaluation.task import Task


@dataclass(frozen=True)
class Where:
    """Where sources and references come from."""

    source: str | None
    reference: list[str]
    data: str | None
    split: str
    group: bool
    languages: tuple[str | None, str | None]
    max_sentences: int | None
    allow_empty: bool


def command(
    model: Annotated[str | None, Argument(help="model folder, or name on the Hugging Face hub")] = None,
    source: Annotated[str | None, Option("--source", "-s", help="file of lines to translate")] = None,
    reference: Annotated[list[str] | None, Option("--reference", "-r", help="file of references; may be repeated")] = None,
    hypotheses: Annotated[str | None, Option(help="score this file of translations, without a model")] = None,
    data: Annotated[str | None, Option(help="a named data set, a .tsv, .jsonl or .parquet file, or SRC,TGT")] = None,
    split: Annotated[str, Option(help="part of a named data set")] = "test",
    source_lang: Annotated[str | None, Option(help="source language (or column of the data)")] = None,
    target_lang: Annotated[str | None, Option(help="target language; chooses BLEU's tokenizer")] = None,
    group: Annotated[bool, Option(help="all translations that --data has for a source are its references")] = True,
    metrics: Annotated[
        str, Option(help="bleu,chrf,chrf++,ter,exact_match,wer,per,cer,word_error,perplexity …")
    ] = "bleu,chrf",
    tokenize: Annotated[str | None, Option(help="BLEU's tokenizer: 13a, zh, none, intl, char, flores200 …")] = None,
    lowercase: Annotated[bool, Option("--lowercase", help="compare without case")] = False,
    moses: Annotated[
        str, Option(help="put these on the published scale (lower case, Moses): source,reference,hypothesis")
    ] = "",
    num_beams: Annotated[int | None, Option("--num-beams", "--beam-size", help="default: the model's")] = None,
    length_penalty: Annotated[float | None, Option("--length-penalty", "--alpha", help="default: the model's")] = None,
    max_sentences: Annotated[int | None, Option(min=1, help="only the first so many sentences")] = None,
    allow_empty: Annotated[bool, Option("--allow-empty", help="score empty references too, with a warning")] = False,
    output: Annotated[str | None, Option("--output", "-o", help="write the translations here before scoring")] = None,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Score a model on a test set, or a file of translations against its references."""
    from regard.evaluation.evaluate import Evaluating
    from regard.evaluation.scores import Scoring

    if (model is None) == (hypotheses is None):
        raise UserError("give either a model folder or --hypotheses FILE")
    languages = (source_lang, target_lang)
    where = Where(source, reference or [], data, split, group, languages, max_sentences, allow_empty)
    task, finish, tokenize = _on_scale(_task(where, bool(model)), moses, tokenize)
    scoring = Scoring(task.target_language, tokenize, lowercase, allow_empty)
    search = {"num_beams": num_beams, "length_penalty": length_penalty}
    search = {name: value for name, value in search.items() if value is not None}
    options = Evaluating(metrics.split(","), scoring, search, output, finish)
    found = _found(model, hypotheses, task, options, max_sentences)
    about = {"model": model, "hypotheses": hypotheses, "data": data, "split": split if data else None, "search": search}
    _tell(found, json, about)


def _task(where: Where, translating: bool) -> Task:
    from regard.evaluation.task import task_of_files, task_of_pairs

    if (where.data is None) == (not where.reference):
        raise UserError("say what to score against: either --reference FILE or --data NAME")
    if where.data is None:
        if translating and where.source is None:
            raise UserError("a model needs something to translate: give --source FILE")
        task = task_of_files(where.source, where.reference, *where.languages, where.allow_empty)
        return task.first(where.max_sentences)
    from regard.text.named import NAMED, find

    source, target = where.languages
    if source is None or target is None:
        raise UserError("--data needs both languages, such as --source-lang en --target-lang fr")
    spec = find(where.data, where.split, source, target) if where.data in NAMED else where.data
    task = task_of_pairs(spec, source, target, group=where.group, allow_empty=where.allow_empty)
    return task.first(where.max_sentences)


def _on_scale(task: Task, sides: str, tokenize: str | None) -> tuple[Task, Any, str | None]:
    """The task, what finishes a translation, and BLEU's tokenizer, with the sides named put on the published scale."""
    names = {name.strip() for name in sides.split(",") if name.strip()}
    unknown = names - {"source", "reference", "hypothesis"}
    if unknown:
        raise UserError(f"--moses takes source, reference and hypothesis, not {min(unknown)!r}")
    if not names:
        return task, None, tokenize
    from regard.evaluation.moses import Moses

    def scale(side: str, language: str | None) -> Moses | None:
        if side in names and language is None:
            raise UserError(f"--moses {side} needs the language: give --source-lang or --target-lang")
        return Moses(str(language)) if side in names else None

    finish = scale("hypothesis", task.target_language)
    task = task.changed(scale("source", task.source_language), scale("reference", task.target_language))
    return task, finish, tokenize or ("none" if "reference" in names else None)


def _found(model: str | None, hypotheses: str | None, task: Task, options: Evaluating, limit: int | None) -> Evaluation:
    from regard.evaluation.evaluate import evaluate, evaluate_lines
    from regard.text.corpus import read_lines

    if model is None:
        return evaluate_lines(list(read_lines(str(hypotheses)))[:limit], task, options)
    from regard.translator import load

    return evaluate(load(model), task, options)


def _tell(found: Evaluation, json: str | None, about: dict[str, Any]) -> None:
    from regard.evaluation.files import write_json

    print("\n".join(found.lines()), file=sys.stderr if json == "-" else sys.stdout)
    if json is not None:
        write_json(json, {**{name: value for name, value in about.items() if value is not None}, **found.json()})
