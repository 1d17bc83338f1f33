"""regard translate: arguments or lines in, a line out for each."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any

from typer import Argument, Option

from regard.cli.streams import chunks, heard, one_line, out

NAMED = 10
"""So many lines of a kind are named on stderr; further ones are counted."""

PLACES = ("model", "text", "input", "output", "jsonl", "device", "dtype", "engine")
OWN = ("batch_tokens", "workers", "glossary", "require", "forbid", "keep", "replace_unknown", "confidence")
"""Options that are not of the search."""
SCORES = "score = log-probability / tokens^X, the end mark counted"


_Count = Annotated[
    int | None, Option("--n-best", "--num-return", help="answers a line, as NUMBER ||| TEXT ||| log-probability ||| score")
]
_Ngram = Annotated[int | None, Option("--no-repeat-ngram-size", "--block-ngram-repeat", help="no n tokens twice; 0: off")]
_Kept = Annotated[
    list[str] | None, Option(help="carry through unchanged: tags, variables, urls, emails, code, or a regular expression")
]
_Unknown = Annotated[
    bool | None, Option("--replace-unknown", help="unknown tokens become the source word that was looked at")
]


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    text: Annotated[list[str] | None, Argument(help="texts to translate; none: lines of stdin")] = None,
    input: Annotated[str | None, Option("--input", "-i", help="read lines of this file, plain or compressed")] = None,
    output: Annotated[str | None, Option("--output", "-o", help="write here, whole or not at all")] = None,
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
    glossary: Annotated[
        str | None, Option(help="lines TERM<tab>TRANSLATION|ANOTHER: one must stand where the term does")
    ] = None,
    require: Annotated[list[str] | None, Option(help="phrase of every translation; PHRASE|PHRASE: either")] = None,
    forbid: Annotated[list[str] | None, Option(help="phrase of no translation")] = None,
    keep: _Kept = None,
    replace_unknown: _Unknown = None,
    batch_tokens: Annotated[int | None, Option(min=1, help="source tokens of a batch; changes speed, not answers")] = None,
    workers: Annotated[int, Option(min=1, help="processes of one thread each (CPU)")] = 1,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 …; default: the GPU if there is one")] = None,
    dtype: Annotated[str | None, Option(help="float32, bfloat16, float16; default: as stored")] = None,
    engine: Annotated[str, Option(help="regard, ctranslate2, or with small weights ctranslate2:int8")] = "regard",
) -> None:
    """Translate texts given as arguments, or else lines of stdin, one line for each; empty lines stay empty."""
    options = _asked(locals())
    texts = chunks(text, input, "lines to translate")
    translator = _load(model, device, dtype, engine, options)
    report = Report()
    with out(output) as file, heard("regard.translator", logging.ERROR):
        for chunk in texts:
            answers = translator.translate(chunk, details=True, first=report.lines, **options)
            for answer in answers:
                report.add(answer)
                for line in _json(answer, report.lines) if jsonl else _text(answer, report.lines, num_return):
                    file.write(line.encode("utf-8", "backslashreplace") + b"\n")
            file.flush()
    report.close()


def _asked(named: dict[str, Any]) -> dict[str, Any]:
    """Of what the command line says, the options of `Translator.translate`."""
    options = {name: value for name, value in named.items() if name not in PLACES and value not in (None, [])}
    return options | {"confidence": True} if named["jsonl"] else options


def _load(model: str, device: str | None, dtype: str | None, engine: str, options: dict[str, Any]) -> Any:
    from regard.decoding.options import search_options
    from regard.translator import load

    search_options(None, **{name: v for name, v in options.items() if name not in OWN})
    if "glossary" in options:
        from regard.text.glossary import Glossary

        options["glossary"] = Glossary.open(options["glossary"])
    if engine == "regard":
        return load(model, device, dtype)
    from regard.serving.ctranslate import engine as running_in

    run = running_in(engine)
    return run(load(model, device, dtype))


def _text(answer: Any, number: int, count: int | None) -> Iterable[str]:
    if (count or 1) == 1:
        return [one_line(answer.text)]
    return [
        f"{number} ||| {one_line(each.text)} ||| {each.log_prob:.6f} ||| {each.score:.6f}"
        for each in (answer, *answer.alternatives)
    ]


def _json(answer: Any, number: int) -> Iterable[str]:
    return [json.dumps({"line": number} | answer.json(), ensure_ascii=False)]


KINDS = {
    "truncated": "the source is longer than the model reads, its end was left out",
    "cut": "the translation was cut by the length limit",
    "empty": "the translation is empty, the source is not",
    "unkept": "a phrase, term or part that was promised is not there as promised",
}


@dataclass
class Report:
    """What should not go unnoticed: the first lines of each kind are named at once, all are counted at the end."""

    lines: int = 0
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, answer: Any) -> None:
        """Take note of a line's answer."""
        self.lines += 1
        for kind, found in (
            ("truncated", answer.truncated),
            ("cut", not answer.finished),
            ("unkept", bool(answer.unkept)),
            ("empty", not answer.text and bool(answer.source.strip())),
        ):
            if found:
                self.counts[kind] = self.counts.get(kind, 0) + 1
                if self.counts[kind] <= NAMED:
                    print(f"line {self.lines}: {KINDS[kind]}", file=sys.stderr)

    def close(self) -> None:
        """Say how many there were."""
        for kind, count in self.counts.items():
            print(f"{count} of {self.lines} lines: {KINDS[kind]}", file=sys.stderr)
