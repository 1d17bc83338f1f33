"""regard generate: prompts in, what follows out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

from typer import Argument, Option

from regard.cli.streams import Writer, chunks, out
from regard.errors import UserError

PLACES = (
    *("model", "prompt", "input", "output", "json", "jsonl", "chat", "system"),
    *("device", "dtype", "engine", "lookup", "draft"),
)

_Most = Annotated[
    int | None, Option("--max-new-tokens", "--max-length", min=1, help="most tokens of an answer; default: 128")
]
_Ngram = Annotated[int | None, Option("--no-repeat-ngram-size", "--block-ngram-repeat", help="no n tokens twice; 0: off")]
_Lookup = Annotated[bool, Option("--lookup", help="guess ahead from what stood there before: the same text, sooner")]


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    prompt: Annotated[list[str] | None, Argument(help="texts to go on with; none: lines of stdin")] = None,
    input: Annotated[str | None, Option("--input", "-i", help="read prompts of this file, one a line")] = None,
    output: Annotated[str | None, Option("--output", "-o", help="write here, whole or not at all")] = None,
    json: Annotated[str | None, Option("--json", help="write one JSON document to this file (-: stdout)")] = None,
    jsonl: Annotated[bool, Option("--jsonl", help="write one JSON object a line, with log-probabilities")] = False,
    chat: Annotated[bool, Option("--chat", help="the prompts are turns of one conversation")] = False,
    system: Annotated[str | None, Option(help="what a chat's model is told before the conversation")] = None,
    max_new_tokens: _Most = None,
    stop: Annotated[list[str] | None, Option("--stop", help="end an answer before this text; may be repeated")] = None,
    min_length: Annotated[int | None, Option(help="fewest tokens of an answer")] = None,
    sample: Annotated[bool | None, Option("--sample", help="draw answers; so does each of the next four")] = None,
    temperature: Annotated[float | None, Option(help="of sampling; 0 is greedy")] = None,
    top_k: Annotated[int | None, Option(help="sample from the k best tokens; 0: no limit")] = None,
    top_p: Annotated[float | None, Option(help="sample from the best tokens that hold this share")] = None,
    min_p: Annotated[float | None, Option(help="sample from tokens at least this share as likely as the best")] = None,
    seed: Annotated[int | None, Option(help="of sampling")] = None,
    num_return: Annotated[int | None, Option("--n-best", "--num-return", help="answers a prompt")] = None,
    num_beams: Annotated[int | None, Option("--num-beams", "--beam-size", help="above 1: search with beams")] = None,
    repetition_penalty: Annotated[float | None, Option(help="above 1: avoid tokens already written")] = None,
    no_repeat_ngram_size: _Ngram = None,
    batch_tokens: Annotated[int | None, Option(min=1, help="prompt tokens of a batch; changes speed, not answers")] = None,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 …; default: the GPU if there is one")] = None,
    dtype: Annotated[str | None, Option(help="float32, bfloat16, float16, int8 (CPU); default: as stored")] = None,
    engine: Annotated[str, Option(help="regard, or compiled: the same answers, sooner (CPU, float32)")] = "regard",
    lookup: _Lookup = False,
    draft: Annotated[str | None, Option(help="guess ahead by this smaller model of the same vocabulary")] = None,
) -> None:
    """Go on with prompts given as arguments, or else with lines of stdin, greedily unless asked otherwise.

    One answer to one prompt is shown as it is written. Several are a line each, their line ends as spaces (--jsonl keeps
    them).
    """
    options = {name: value for name, value in locals().items() if name not in PLACES and value is not None}
    prompts = chunks(prompt, input, "prompts")
    if system is not None and not chat:
        raise UserError("--system belongs to a conversation: add --chat")
    generator = _load(model, device, dtype, options, engine)
    generator.guess = _guess(lookup, draft, device, dtype, generator)
    with out(output) as file:
        writer = Writer(file, jsonl, json)
        one = len(prompt or ()) == 1 or (not prompt and input is None and sys.stdin.isatty())
        if chat:
            _converse(generator, (line for chunk in prompts for line in chunk), system, writer, options)
        else:
            _answer(generator, prompts, writer, options, one and output is None and _can_be_shown(writer, options))
        writer.close("answers")


def _answer(generator: Any, prompts: Iterator[list[str]], writer: Writer, options: dict[str, Any], shown: bool) -> None:
    """What follows each prompt by itself. shown: as it is written."""
    for chunk in prompts:
        if not shown:
            found = generator.generate(chunk, details=True, first=writer.count, **options)
            writer.answers((_line(answer), answer.json()) for answer in found)
            continue
        for line in chunk:
            _show(generator, line, writer, options, writer.count)
            writer.count += 1


def _can_be_shown(writer: Writer, options: dict[str, Any]) -> bool:
    """Whether an answer is certain token by token, and wanted as bare text."""
    several = any((options.get(name) or 1) > 1 for name in ("num_beams", "num_return"))
    return not (writer.jsonl or writer.document is not None or several)


def _load(model: str, device: str | None, dtype: str | None, options: dict[str, Any], engine: str) -> Any:
    from regard.decoding.options import search_options

    own = ("batch_tokens", "stop")
    search_options(None, **{name: value for name, value in options.items() if name not in own})
    from regard.generator import Generator
    from regard.loading import load_as

    return load_as(Generator, model, device, dtype).run_in(engine)


def _guess(lookup: bool, draft: str | None, device: str | None, dtype: str | None, generator: Any) -> Any:
    """What guesses ahead, None for nothing."""
    if not lookup and draft is None:
        return None
    from regard.decoding.speculative import Draft, Lookup

    if draft is None:
        return Lookup()
    if lookup:
        raise UserError("--lookup and --draft are two ways of guessing: give one")
    from regard.generator import Generator
    from regard.loading import load_as

    smaller = load_as(Generator, draft, device, dtype)
    if smaller.tokenizer.hash != generator.tokenizer.hash:
        raise UserError(f"--draft {draft}: has another vocabulary than the model, so it cannot guess for it")
    return Draft(smaller.model)


def _show(generator: Any, prompt: Any, writer: Writer, options: dict[str, Any], number: int) -> str:
    """Write an answer as it is made, and give it back."""
    written = ""
    kept = {name: value for name, value in options.items() if name != "batch_tokens"}
    for piece in generator.stream(prompt, first=number, **kept):
        writer.piece(piece)
        written += piece
    writer.line("")
    writer.file.flush()
    return written


def _converse(generator: Any, turns: Iterator[str], system: str | None, writer: Writer, options: dict[str, Any]) -> None:
    """Answer each turn with the whole conversation before it."""
    shown = _can_be_shown(writer, options)
    messages = [] if system is None else [{"role": "system", "content": system}]
    for number, turn in enumerate(turns):
        messages.append({"role": "user", "content": turn})
        if shown:
            text = _show(generator, messages, writer, options, number)
        else:
            (answer,) = generator.generate([messages], details=True, first=number, **options)
            text = answer.text
            answer.prompt = turn
            writer.answers([(_line(answer), answer.json())])
        messages = [*messages, {"role": "assistant", "content": text}]


def _line(answer: Any) -> str:
    """An answer, or all alternatives of it, as one line."""
    return " ||| ".join(each.text for each in (answer, *answer.alternatives))
