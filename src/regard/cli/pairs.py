"""regard pairs: parallel text out of text in one language, for back-translation and distillation."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

from typer import Argument, Option

from regard.cli.craft import Candidates, More, Utility, opened
from regard.errors import UserError

KEPT_OUT = ("empty", "unfinished", "repetition", "copied", "too-long", "too-short")
"""Flags of translations that nothing should be learned from."""


def command(
    model: Annotated[str, Argument(help="model folder, or name on the Hugging Face hub")],
    input: Annotated[str, Option("--input", "-i", help="lines of the language that the model reads, plain or compressed")],
    output: Annotated[str, Option("--output", "-o", help="FILE.tsv, FILE.jsonl, or PREFIX for two line files")],
    back: Annotated[
        bool, Option("--back", help="the translations become the source side (back-translation); else the target side")
    ] = False,
    tag: Annotated[
        str, Option(help="symbol at the beginning of each source, such as <BT>; name it in tokenizer.extra")
    ] = "",
    more: More = None,
    num_beams: Annotated[int | None, Option("--num-beams", "--beam-size", help="default: the model's")] = None,
    sample: Annotated[bool | None, Option("--sample", help="draw answers instead of searching")] = None,
    top_k: Annotated[int | None, Option(help="sample from the k best tokens; 0: no limit")] = None,
    seed: Annotated[int | None, Option(help="of sampling")] = None,
    mbr: Utility = None,
    candidates: Candidates = None,
    keep_all: Annotated[bool, Option("--keep-all", help="keep translations that look broken too")] = False,
    workers: Annotated[int, Option(min=1, help="processes of one thread each (CPU)")] = 1,
    device: Annotated[str | None, Option(help="cpu, cuda, cuda:1 …; default: the GPU if there is one")] = None,
) -> None:
    """Translate a file of lines and write pairs to learn from: with --back for a model of the other direction, else for a
    smaller model that learns what this one says (distillation)."""
    from regard.text.corpus import read_lines
    from regard.text.write import parts, write_rows

    options = {"num_beams": num_beams, "sample": sample, "top_k": top_k, "seed": seed, "mbr": mbr, "candidates": candidates}
    if tag and (tag != tag.strip() or any(character.isspace() for character in tag)):
        raise UserError(f"--tag is one symbol without spaces, such as <BT>, not {tag!r}")
    translator = opened(model, more, device)
    languages = str(translator.meta.get("source") or "source"), str(translator.meta.get("target") or "target")
    sides = languages[::-1] if back else languages
    files = parts(output, *sides)
    lines = list(read_lines(input))
    made, counts = _pairs(translator, lines, back, keep_all, {"workers": workers} | options)
    made = [(f"{tag} {source}" if tag else source, target, line) for source, target, line in made]
    write_rows(files, _as_pairs(made), *sides)
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    left = f"; left out: {told}" if told else ""
    print(f"{len(made):,} pairs of {len(lines):,} lines in {', '.join(map(str, files))}{left}", file=sys.stderr)


def _pairs(
    translator: Any, lines: list[str], back: bool, keep_all: bool, options: dict[str, Any]
) -> tuple[list[tuple[str, str, int]], dict[str, int]]:
    """(source, target, line) of each line that makes a pair, and how many were left out, by reason."""
    made: list[tuple[str, str, int]] = []
    counts: dict[str, int] = dict.fromkeys(("blank", *KEPT_OUT), 0)
    found = translator.stream(lines, details=True, **{name: value for name, value in options.items() if value is not None})
    for number, (line, answer) in enumerate(zip(lines, found), 1):
        wrong = next((name for name in KEPT_OUT if name in answer.flags), None)
        if not line.strip() or not answer.text.strip():
            counts["empty" if line.strip() else "blank"] += 1
        elif wrong is not None and not keep_all:
            counts[wrong] += 1
        else:
            read, written = _clean(line), _clean(answer.text)
            made.append((written, read, number) if back else (read, written, number))
    return made, {name: count for name, count in counts.items() if count}


def _clean(text: str) -> str:
    return re.sub(r"[\t\r\n]+", " ", text)


def _as_pairs(made: list[tuple[str, str, int]]) -> list[Any]:
    from regard.text.corpus import Pair

    return [Pair(source, target, line) for source, target, line in made]
