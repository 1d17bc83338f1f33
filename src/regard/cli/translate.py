"""regard translate: arguments or lines in, a line out for each; a document in place; or a conversation on a terminal."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Any

from typer import Argument, Option

from regard.cli import parts, terminal, translating
from regard.cli.craft import Candidates, Diversity, Groups, More, Rerank, Utility
from regard.cli.streams import chunks, heard, out
from regard.errors import UserError

PLACES = (
    *("model", "text", "input", "output", "format", "split", "attributes", "jsonl"),
    *("device", "dtype", "engine", "shortlist", "more", "rerank", "parts"),
)
OWN = (
    "batch_tokens",
    "workers",
    "glossary",
    "require",
    "forbid",
    "keep",
    "replace_unknown",
    "confidence",
    "context",
    "prefix",
    "complete",
    "mbr",
    "candidates",
)
"""Options that are not of the search."""
SCORES = "score = log-probability / tokens^X, the end mark counted"


_Count = Annotated[
    int | None, Option("--n-best", "--num-return", help="answers a line, as NUMBER ||| TEXT ||| log-probability ||| score")
]
_Ngram = Annotated[int | None, Option("--no-repeat-ngram-size", "--block-ngram-repeat", help="no n tokens twice; 0: off")]
_Glossary = Annotated[str | None, Option(help="lines TERM<tab>TRANSLATION|ANOTHER: one must stand where the term does")]
_Kept = Annotated[
    list[str] | None, Option(help="carry through unchanged: tags, variables, urls, emails, code, or a regular expression")
]
_Unknown = Annotated[
    bool | None,
    Option("--replace-unknown/--leave-unknown", help="unknown tokens become the source word that was looked at, or not"),
]
_Format = Annotated[
    str | None,
    Option(
        help="what the input is: lines, or a document to translate in place: text, srt, vtt, markdown, html or po;"
        " auto goes by the file's name; default: auto for names of documents, else lines"
    ),
]
_Split = Annotated[str | None, Option(help="sentences or no: cut texts into sentences; default: those of documents alone")]
_Parts = Annotated[
    int | None,
    Option(
        min=1,
        help="work in parts of so many lines, kept in OUTPUT.parts until all are there, so that a broken-off job goes on;"
        " under torchrun processes share them; --input may have * and --output be a folder",
    ),
]
_Context = Annotated[
    int | None,
    Option(
        min=0,
        help="read so many sentences before each, and their translations; a blank line ends a document; for models that"
        " learned it (data.context)",
    ),
]
_Prefix = Annotated[str | None, Option(help="how every translation begins")]
_Complete = Annotated[bool | None, Option("--complete", help="the last word of --prefix may be the beginning of a word")]
_Attributes = Annotated[bool, Option("--attributes", help="of HTML, alt texts, titles and the like too")]


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    text: Annotated[list[str] | None, Argument(help="texts to translate; none: lines of stdin")] = None,
    input: Annotated[str | None, Option("--input", "-i", help="read lines of this file, plain or compressed")] = None,
    output: Annotated[str | None, Option("--output", "-o", help="write here, whole or not at all")] = None,
    format: _Format = None,
    split: _Split = None,
    attributes: _Attributes = False,
    jsonl: Annotated[bool, Option("--jsonl", help="write one JSON object a line, with scores")] = False,
    num_beams: Annotated[int | None, Option("--num-beams", "--beam-size", help="1: greedy; default: the model's")] = None,
    length_penalty: Annotated[float | None, Option("--length-penalty", "--alpha", help=f"X in {SCORES}")] = None,
    length_form: Annotated[str | None, Option(help="power (as above) or gnmt: ((5 + tokens) / 6)^X")] = None,
    coverage_penalty: Annotated[float | None, Option(help="weight of GNMT's coverage penalty")] = None,
    num_return: _Count = None,
    min_length: Annotated[int | None, Option(help="fewest tokens of an answer")] = None,
    max_length: Annotated[int | None, Option("--max-length", "--max-new-tokens", help="most tokens of an answer")] = None,
    stopping: Annotated[str | None, Option(help="standard, first or exhaustive")] = None,
    sample: Annotated[bool | None, Option("--sample", help="draw answers instead of searching")] = None,
    temperature: Annotated[float | None, Option(help="of sampling; 0 is greedy search")] = None,
    top_k: Annotated[int | None, Option(help="sample from the k best tokens; 0: no limit")] = None,
    top_p: Annotated[float | None, Option(help="sample from the best tokens that hold this share")] = None,
    min_p: Annotated[float | None, Option(help="sample from tokens at least this share as likely as the best")] = None,
    seed: Annotated[int | None, Option(help="of sampling")] = None,
    repetition_penalty: Annotated[float | None, Option(help="above 1: avoid tokens already written")] = None,
    no_repeat_ngram_size: _Ngram = None,
    num_beam_groups: Groups = None,
    diversity_penalty: Diversity = None,
    more: More = None,
    mbr: Utility = None,
    candidates: Candidates = None,
    rerank: Rerank = None,
    glossary: _Glossary = None,
    require: Annotated[list[str] | None, Option(help="phrase of every translation; PHRASE|PHRASE: either")] = None,
    forbid: Annotated[list[str] | None, Option(help="phrase of no translation")] = None,
    keep: _Kept = None,
    replace_unknown: _Unknown = None,
    prefix: _Prefix = None,
    complete: _Complete = None,
    context: _Context = None,
    batch_tokens: Annotated[int | None, Option(min=1, help="source tokens of a batch; changes speed, not answers")] = None,
    workers: Annotated[int, Option(min=0, help="processes of one thread each (CPU); 0: one a core")] = 1,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 …; default: the GPU if there is one")] = None,
    dtype: Annotated[str | None, Option(help="float32, bfloat16, float16, int8 (CPU); default: as stored")] = None,
    engine: Annotated[str, Option(help="regard, compiled, ctranslate2, or with small weights ctranslate2:int8")] = "regard",
    shortlist: Annotated[bool, Option("--shortlist", help="score likely tokens alone (see regard shortlist)")] = False,
    parts: _Parts = None,
) -> None:
    """Translate texts given as arguments, or else lines of stdin, one line for each; empty lines stay empty."""
    _translate(dict(locals()))


def _translate(named: dict[str, Any]) -> None:
    """Do what the command line says."""
    options, format = _asked(named), _format(named)
    if named["parts"] is not None or parts.place()[1] > 1:
        _in_parts(named, options)
        return
    texts = [] if format else chunks(named["text"], named["input"], "lines to translate")
    translator = _load(named, options)
    if options.get("context"):
        from regard.decoding.context import thread_of

        thread_of(options["context"], translator.meta)  # refused before anything is read
    if format is None and not any(named[name] for name in ("text", "input", "output", "jsonl")) and terminal.sits():
        terminal.converse(translator, options)
        return
    with out(named["output"]) as file, heard("regard.translator", logging.ERROR):
        if format is None:
            translating.lines(translator, texts, file, named["jsonl"], named["split"] or "no", options)
        else:
            options |= {"split": named["split"] or "sentences", "attributes": named["attributes"]}
            text = translating.read_document(named["input"])
            translating.document(translator, text, format, file, named["jsonl"], options)


def _in_parts(named: dict[str, Any], options: dict[str, Any]) -> None:
    """The same for files of any size, in parts."""
    if named["text"] or named["format"] not in (None, "lines"):
        raise UserError("--parts is for files of lines: give --input and --output, no texts and no --format")
    if named["context"]:
        raise UserError("--context reads lines in order, --parts side by side: leave one of them away")
    jobs, (rank, world) = parts.jobs_of(named["input"], named["output"]), parts.place()
    said = {"model": parts.whereabouts(named["model"]), "split": named["split"], "jsonl": named["jsonl"]}
    said |= {
        "more": [parts.whereabouts(one) for one in named["more"] or ()],
        "rerank": named["rerank"],
        "engine": named["engine"],
        "dtype": named["dtype"],
    }
    said["shortlist"] = named["shortlist"]
    said |= {name: value for name, value in options.items() if name not in ("workers", "batch_tokens")}
    named["device"] = parts.own_device(named["device"])
    open_ = [one for one in (parts.Parts(*job, named["parts"] or parts.SIZE, said) for job in jobs) if one.open()]
    if len(open_) < len(jobs):
        print(f"{len(jobs) - len(open_)} of {len(jobs)} outputs are there already and stay as they are", file=sys.stderr)
    if not open_:
        return
    translator, split = _load(named, options), named["split"] or "no"
    with heard("regard.translator", logging.ERROR):
        for one in open_:
            one.run(
                rank,
                world,
                lambda texts, file, first: translating.lines(translator, texts, file, named["jsonl"], split, options, first),
            )


def _format(named: dict[str, Any]) -> str | None:
    """The format of the document; None for lines. UserError: texts are given as arguments."""
    from regard.text import formats

    if named["format"] in (None, "lines"):
        its = formats.told(named["input"] or "")
        return its if named["format"] is None and its != "text" and named["parts"] is None else None
    if named["text"]:
        raise UserError("--format is for a document: give --input FILE or stdin, not texts")
    return formats.named(named["format"], named["input"])


def _asked(named: dict[str, Any]) -> dict[str, Any]:
    """Of what the command line says, the options of `Translator.translate`."""
    options = {name: value for name, value in named.items() if name not in PLACES and value not in (None, [])}
    return options | {"confidence": True} if named["jsonl"] else options


def _load(named: dict[str, Any], options: dict[str, Any]) -> Any:
    from regard.cli.craft import opened, reranked
    from regard.decoding.options import search_options

    search_options(None, **{name: v for name, v in options.items() if name not in OWN})
    if "glossary" in options:
        from regard.text.glossary import Glossary

        options["glossary"] = Glossary.open(options["glossary"])
    run = _engine(named)
    translator = run(opened(named["model"], named["more"], named["device"], named["dtype"]))
    if steps := getattr(translator, "meta", {}).get("preprocess"):
        print(
            f"note: this model learned from text after {', '.join(steps)}: give it such text, and expect such",
            file=sys.stderr,
        )
    if named["shortlist"]:
        translator.use_shortlist(named["model"])
    if named["workers"] != 1:
        from regard.decoding.generate import Workers, cores

        own = named["engine"] in ("regard", "compiled")
        options["workers"] = Workers(translator.model, named["workers"]) if own else named["workers"] or cores()
    return translator if named["rerank"] is None else reranked(translator, named["rerank"], named["device"])


def _engine(named: dict[str, Any]) -> Any:
    """What makes of a translator one that runs in the engine that is named."""
    if named["engine"] == "regard":
        return lambda translator: translator
    from regard.serving.ctranslate import engine as running_in

    if named["more"]:
        raise UserError(f"an ensemble runs in the engine regard alone, not in {named['engine']}: leave --engine away")
    return running_in(named["engine"])
