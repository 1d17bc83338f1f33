"""regard evaluate: score a model, or translations that are already there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from regard.cli.craft import Candidates, More, Rerank, Utility
from regard.errors import UserError

if TYPE_CHECKING:
    from regard.evaluation.evaluate import Evaluation
    from regard.evaluation.task import Task


@dataclass(frozen=True)
class Where:
    """Where sources and references come from, and what is done to them (names of training.preprocess)."""

    source: str | None
    reference: list[str]
    data: str | None
    split: str
    group: bool
    source_language: str | None
    target_language: str | None
    preprocess: list[str]
    max_sentences: int | None
    allow_empty: bool


_Target = Annotated[str | None, Option(help="target language; chooses BLEU's tokenizer; default: the model's")]
_Steps = Annotated[str | None, Option(help="steps for sources and references (moses-lc, no-stress); default: the model's")]
_Context = Annotated[
    int | None, Option(min=0, help="the sentences are those of documents: read so many before each, and their translations")
]
_Unknown = Annotated[
    bool | None,
    Option("--replace-unknown/--leave-unknown", help="unknown tokens become the source word that was looked at, or not"),
]
_Calibrate = Annotated[
    str | None, Option(help="fit the quality estimate to this data, keep it in the model folder, draw its reliability here")
]


def command(
    model: Annotated[str | None, Argument(help="model folder, or name on the Hugging Face hub")] = None,
    source: Annotated[str | None, Option("--source", "-s", help="file of lines to translate")] = None,
    reference: Annotated[list[str] | None, Option("--reference", "-r", help="file of references; may be repeated")] = None,
    hypotheses: Annotated[str | None, Option(help="score this file of translations, without a model")] = None,
    data: Annotated[str | None, Option(help="a named data set, a .tsv, .jsonl or .parquet file, or SRC,TGT")] = None,
    split: Annotated[str, Option(help="part of a named data set")] = "test",
    source_lang: Annotated[str | None, Option(help="source language (or column of the data); default: the model's")] = None,
    target_lang: _Target = None,
    group: Annotated[bool, Option(help="all translations that --data has for a source are its references")] = True,
    preprocess: _Steps = None,
    finish: Annotated[str, Option(help="steps for the translations before they are scored")] = "",
    metrics: Annotated[str | None, Option(help="bleu,chrf,chrf++,ter,exact_match,wer,per,cer,word_error,perplexity")] = None,
    tokenize: Annotated[str | None, Option(help="BLEU's tokenizer: 13a, zh, none, intl, char, flores200 …")] = None,
    lowercase: Annotated[bool, Option("--lowercase", help="compare without case")] = False,
    num_beams: Annotated[int | None, Option("--num-beams", "--beam-size", help="default: the model's")] = None,
    length_penalty: Annotated[float | None, Option("--length-penalty", "--alpha", help="default: the model's")] = None,
    more: More = None,
    mbr: Utility = None,
    candidates: Candidates = None,
    sample: Annotated[bool | None, Option("--sample", help="draw answers instead of searching")] = None,
    context: _Context = None,
    replace_unknown: _Unknown = None,
    rerank: Rerank = None,
    max_sentences: Annotated[int | None, Option(min=1, help="only the first so many sentences")] = None,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 …; default: the GPU if there is one")] = None,
    dtype: Annotated[str | None, Option(help="float32, bfloat16, float16, int8 (CPU); default: as stored")] = None,
    engine: Annotated[str, Option(help="regard, compiled, ctranslate2, or with small weights ctranslate2:int8")] = "regard",
    shortlist: Annotated[bool, Option("--shortlist", help="score likely tokens alone (see regard shortlist)")] = False,
    allow_empty: Annotated[bool, Option("--allow-empty", help="score empty references too, with a warning")] = False,
    calibrate: _Calibrate = None,
    output: Annotated[str | None, Option("--output", "-o", help="write the translations here before scoring")] = None,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
) -> None:
    """Score a model on a test set, or a file of translations against its references."""
    _evaluate(dict(locals()))


SEARCH = ("num_beams", "length_penalty", "sample", "mbr", "candidates", "context", "replace_unknown")
"""Options of the search."""


def _evaluate(named: dict[str, Any]) -> None:
    """Do what the command line says."""
    from regard.evaluation.evaluate import Evaluating
    from regard.evaluation.files import check_writable
    from regard.evaluation.scores import Scoring

    model, hypotheses, data, calibrate = (named[name] for name in ("model", "hypotheses", "data", "calibrate"))
    check_writable(named["json"], calibrate)
    translator, known = _model(named)
    steps, limit = named["preprocess"], named["max_sentences"]
    where = Where(
        named["source"],
        named["reference"] or [],
        data,
        named["split"],
        named["group"] and not named["context"],
        named["source_lang"] or known.get("source"),
        named["target_lang"] or known.get("target"),
        names(steps) if steps is not None else list(known.get("preprocess") or []),
        limit,
        named["allow_empty"],
    )
    task = _task(where, translating=model is not None)
    chosen = names(named["metrics"]) or list(known.get("scores") or ("bleu", "chrf"))
    tokenize = named["tokenize"] or untouched(where.preprocess)
    scoring = Scoring(task.target_language, tokenize, named["lowercase"], named["allow_empty"])
    search = {name: named[name] for name in SEARCH if named[name] is not None}
    options = Evaluating(chosen, scoring, search, named["output"], changes(names(named["finish"]), task)[1])
    found = _found(translator, hypotheses, task, options, limit)
    if calibrate is not None:
        _calibrate(translator, model, task, search, calibrate)
    about = {"model": model, "hypotheses": hypotheses, "data": data, "split": data and named["split"], "search": search}
    _tell(found, named["json"], about)


def names(text: str | None) -> list[str]:
    """What stands between commas."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _model(named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The translator and what its folder says of languages, steps and metrics; nothing where there is no model."""
    model, engine, more, rerank = (named[name] for name in ("model", "engine", "more", "rerank"))
    hypotheses, kind = named["hypotheses"], (named["device"], named["dtype"])
    if (model is None) == (hypotheses is None):
        raise UserError("give either a model folder or --hypotheses FILE")
    if model is None:
        return None, {}
    from regard.cli.craft import opened, reranked

    if engine == "regard":
        translator = opened(model, more, *kind)
    elif more:
        raise UserError(f"an ensemble runs in the engine regard alone, not in {engine}: leave --engine away")
    else:
        from regard.serving.ctranslate import engine as running_in

        run = running_in(engine)
        translator = run(opened(model, None, *kind))
    if named["shortlist"]:
        translator.use_shortlist(model)
    return translator if rerank is None else reranked(translator, rerank), translator.meta


def _task(where: Where, translating: bool) -> Task:
    from regard.evaluation.task import task_of_files, task_of_pairs

    if (where.data is None) == (not where.reference):
        raise UserError("say what to score against: either --reference FILE or --data NAME")
    languages = where.source_language, where.target_language
    if where.data is None:
        if translating and where.source is None:
            raise UserError("a model needs something to translate: give --source FILE")
        task = task_of_files(where.source, where.reference, *languages, where.allow_empty)
    else:
        source, target = languages
        if source is None or target is None:
            raise UserError("--data needs both languages, such as --source-lang en --target-lang fr")
        from regard.text.named import NAMED, find

        spec = find(where.data, where.split, source, target) if where.data in NAMED else where.data
        task = task_of_pairs(spec, source, target, group=where.group, allow_empty=where.allow_empty)
    task = task.first(where.max_sentences)
    return task.changed(*changes(where.preprocess, task))


def changes(steps: list[str], task: Task) -> tuple[Any, Any]:
    """What the steps do to a source and to a target line; None for no steps."""
    if not steps:
        return None, None
    from regard.training.preprocess import STEPS

    unknown = [name for name in steps if name not in STEPS]
    if unknown:
        raise UserError(f"unknown step {unknown[0]!r}; known: {', '.join(STEPS)}")
    source, target = task.source_language or task.target_language, task.target_language
    if source is None or target is None:
        raise UserError(f"{steps[0]} needs to know the languages: give --source-lang and --target-lang")
    left, right = zip(*(STEPS[name](source, target) for name in steps))
    return _chain(left), _chain(right)


def _chain(steps: Sequence[Callable[[str], str]]) -> Callable[[str], str]:
    return lambda text: reduce(lambda done, step: step(done), steps, text)


def untouched(steps: list[str]) -> str | None:
    """Text that Moses has tokenised is scored as it is."""
    return "none" if "moses-lc" in steps else None


def _found(translator: Any, hypotheses: str | None, task: Task, options: Any, limit: int | None) -> Evaluation:
    from regard.evaluation.evaluate import evaluate, evaluate_lines
    from regard.text.corpus import read_lines

    if translator is None:
        return evaluate_lines(list(read_lines(str(hypotheses)))[:limit], task, options)
    return evaluate(translator, task, options)


def _calibrate(translator: Any, folder: str | None, task: Task, search: dict[str, Any], picture: str) -> None:
    """Fit the quality estimate, write it into the folder, and draw it."""
    from regard.evaluation import quality

    if translator is None or folder is None:
        raise UserError("--calibrate needs a model, not only its translations")
    found = quality.measured(translator, task, **search)
    quality.keep(folder, found)
    quality.draw(found, picture)
    print("\n".join(found.lines()), file=sys.stderr)


def _tell(found: Evaluation, json: str | None, about: dict[str, Any]) -> None:
    from regard.files import write_json

    print("\n".join(found.lines()), file=sys.stderr if json == "-" else sys.stdout)
    if json is not None:
        write_json(json, {**{name: value for name, value in about.items() if value is not None}, **found.json()})
