"""`regard data`: check and clean parallel text, list the named data sets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.errors import UserError

if TYPE_CHECKING:
    from regard.text.clean import Report, Rules
    from regard.text.corpus import Pair

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)

Spec = Annotated[
    str,
    typer.Argument(
        help="pairs: a .tsv, .jsonl or .parquet file, SOURCE,TARGET line files, PREFIX (of .en and .fr), or a NAME"
    ),
]
Source = Annotated[str, typer.Option(help="language, column or key that is read", show_default=False)]
Target = Annotated[str, typer.Option(help="language, column or key that is written", show_default=False)]
Split = Annotated[str, typer.Option(help="split of a named data set: train, val or test")]
Words = Annotated[int, typer.Option(help="longest side in words; 0: any")]
Characters = Annotated[int, typer.Option(help="longest side in characters; 0: any")]
Ratio = Annotated[float, typer.Option(help="how many times longer than usual one side may be; 0: any")]
Json = Annotated[str | None, typer.Option("--json", help="write the report as one JSON document; '-': stdout")]


@app.callback()
def data() -> None:
    """Check and clean parallel text, list the named data sets."""


@app.command()
def check(
    spec: Spec,
    source: Source,
    target: Target,
    split: Split = "train",
    max_words: Words = 250,
    max_characters: Characters = 2000,
    max_ratio: Ratio = 9.0,
    json: Json = None,
) -> None:
    """Look for faults and change nothing: regard data check my.tsv --source en --target fr

    Empty sides, copies, repeats, absurd lengths and ratios are reported with line numbers. Unequal files, bad UTF-8 and
    damaged archives end it with exit code 2.
    """
    from regard.text import clean as cleaning

    report = cleaning.check(_pairs(spec, source, target, split), _rules(max_words, max_characters, max_ratio))
    _tell(report, json)


@app.command("clean")
def command(
    spec: Spec,
    source: Source,
    target: Target,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="a .tsv or .jsonl file, or PREFIX for PREFIX.en and PREFIX.fr", show_default=False
        ),
    ],
    split: Split = "train",
    max_words: Words = 250,
    max_characters: Characters = 2000,
    max_ratio: Ratio = 9.0,
    keep: Annotated[
        list[str] | None, typer.Option(help="keep empty, copies or duplicates (may be given more than once)")
    ] = None,
    dropped: Annotated[
        str | None, typer.Option(help="write every dropped pair into this TSV: line, rule, source, target")
    ] = None,
    json: Json = None,
) -> None:
    """Write the pairs that pass: regard data clean my.tsv --source en --target fr --output good.tsv

    What was dropped and why is reported with line numbers. Pairs keep their order and are not changed; nothing is
    overwritten.
    """
    from regard.text import clean as cleaning
    from regard.text.write import parts, write_rows

    files = parts(output, source, target)
    for path in [*files, *([Path(dropped)] if dropped else [])]:
        if path.exists():
            raise UserError(f"{path}: exists and is not overwritten; choose another name")
    pairs = _pairs(spec, source, target, split)
    kept, report = cleaning.clean(pairs, _rules(max_words, max_characters, max_ratio, keep or []))
    if not kept:
        raise UserError(f"{spec}: no pair passes; {'; '.join(report.lines())}")
    written = write_rows(files, kept, source, target)
    if dropped:
        written.append(_write_dropped(Path(dropped), pairs, report))
    _tell(report, json, files=[str(path) for path in written])


@app.command("list")
def list_() -> None:
    """List the named data sets."""
    from regard.text.named import NAMED

    for name, named in NAMED.items():
        typer.echo(f"{name:<15} {named.what}; sides {', '.join(named.sides)}; splits {', '.join(named.splits)}")
        typer.echo(f"{'':<15} licence: {named.licence}{'; fetched when needed' if named.fetched else ''}")


def _pairs(spec: str, source: str, target: str, split: str) -> list[Pair]:
    from regard.text import named
    from regard.text.corpus import open_corpus

    if spec in named.NAMED and not Path(spec).is_file():
        return open_corpus(named.find(spec, split, source, target), source, target)
    return open_corpus(spec, source, target)


def _rules(max_words: int, max_characters: int, max_ratio: float, keep: list[str] | None = None) -> Rules:
    from regard.text.clean import Rules

    known = ("empty", "copies", "duplicates")
    for name in keep or []:
        if name not in known:
            raise UserError(f"--keep {name} is not known; it takes {', '.join(known)}")
    drops: dict[str, Any] = {f"drop_{name}": name not in (keep or []) for name in known}
    return Rules(max_words=max_words or None, max_characters=max_characters or None, max_ratio=max_ratio or None, **drops)


def _write_dropped(path: Path, pairs: list[Pair], report: Report) -> Path:
    from regard.files import write_text
    from regard.text.write import escaped

    by_line = {pair.line: pair for pair in pairs}
    rows = ["line\trule\tsource\ttarget\n"]
    for line, rule in report.dropped:
        pair = by_line[line]
        rows.append(f"{line}\t{rule}\t{escaped(pair.source)}\t{escaped(pair.target)}\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "".join(rows))
    return path


def _tell(report: Report, json: str | None, files: list[str] | None = None) -> None:
    for line in report.lines():
        print(line, file=sys.stderr if json == "-" else sys.stdout)
    for path in files or []:
        print(f"wrote {path}", file=sys.stderr)
    if json is not None:
        from regard.files import write_json

        write_json(json, report.json() | ({"files": files} if files else {}))
