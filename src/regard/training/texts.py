"""Single texts, texts with classes, pairs of texts: what a recipe's data section names, as examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from regard.errors import UserError
from regard.text import grammar, named
from regard.text.clean import Report, Rules, clean
from regard.text.corpus import Pair, Table, open_corpus, read_lines, read_pairs
from regard.text.grammar import Split
from regard.text.lines import base_name
from regard.training.prepare import GRAMMAR, count_of
from regard.training.recipe import Recipe

TABLES = (".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet")
RUNNING = ("shakespeare",)
"""Named data sets that are one running text."""
BETWEEN = "\x1f"
"""Stands between the two texts of a pair that is classified (ASCII's unit separator)."""


def texts(recipe: Recipe, split: Split) -> list[Pair]:
    """The texts of a split, each as a Pair without target; line: where it begins in its file. [] for a split that the
    recipe does not name. data.more adds to the training texts."""
    data = recipe.data
    told = getattr(data, split)
    found: list[Pair] = []
    if told is not None:
        found = list(of_files(Path(told), data.source, data.unit))
        if not found:
            raise UserError(f"data.{split}: {told} holds no text")
    elif data.name is not None:
        found = _of_name(recipe, data.name, split)
    if split == "train":
        for name in data.more:
            found += _of_name(recipe, name, split)
        found = found[: data.max_pairs]
    return found


def _of_name(recipe: Recipe, name: str, split: Split) -> list[Pair]:
    data = recipe.data
    if name.startswith(GRAMMAR):
        return [Pair(pair.source, "", pair.line) for pair in grammar.sentences(name, count_of(recipe, split), split=split)]
    if name in RUNNING:
        if split == "test":
            return []
        return list(_units(named.text(name, split, data.root), data.unit))
    own = named.NAMED.get(name)
    if own is not None and (split if split != "valid" else "val") not in own.splits:
        return []
    where = named.find(name, split, data.source, data.source, data.root)
    return [Pair(pair.source, "", pair.line) for pair in open_corpus(where, data.source, data.source)]


def of_files(path: Path, column: str, unit: str) -> Iterator[Pair]:
    """The texts of a file, or of all files of a folder, one by one. UserError if it is missing."""
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and not file.name.startswith("."):
                yield from _units("\n".join(read_lines(file)), unit)
    elif base_name(path).endswith(TABLES):
        spec: Table | str = str(path)
        if base_name(path).endswith(TABLES[:2]):
            named_columns = column in next(read_lines(path), "").split("\t")
            spec = Table(str(path), column, column, header=True) if named_columns else Table(str(path), 1, 1)
        for pair in read_pairs(spec, column, column):
            yield Pair(pair.source, "", pair.line)
    elif not path.is_file():
        raise UserError(f"{path}: no such file")
    elif unit == "line":
        yield from (Pair(line, "", number) for number, line in enumerate(read_lines(path), 1) if line.strip())
    else:
        yield from _units("\n".join(read_lines(path)), unit)


def _units(text: str, unit: str) -> Iterator[Pair]:
    """The lines, the paragraphs, or all of a text; empty ones are no texts."""
    if unit == "file":
        if text.strip():
            yield Pair(text, "", 1)
        return
    held: list[str] = []
    first = 1
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if unit == "line":
            if line.strip():
                yield Pair(line, "", number)
        elif line.strip():
            first = first if held else number
            held.append(line)
        elif held:
            yield Pair("\n".join(held), "", first)
            held = []


def cleaned(recipe: Recipe, pairs: list[Pair]) -> tuple[list[Pair], Report]:
    """Training examples without empty texts and, as data.clean says, without repeated and overlong ones. A text alone is
    measured as both sides of a pair."""
    its = recipe.data.clean
    rules = Rules(its.drop_empty, False, its.drop_duplicates, None, None, None)
    alone = not any(pair.target for pair in pairs)
    kept, report = clean([Pair(pair.source, "-", pair.line) for pair in pairs] if alone else pairs, rules)
    if not kept:
        raise UserError(f"data.train: no text is left of {report.total} after cleaning; {'; '.join(report.lines())}")
    return [Pair(pair.source, "", pair.line) for pair in kept] if alone else kept, report


def labelled(recipe: Recipe, split: Split) -> list[Pair]:
    """Texts with their class as target; where data.second names a column, source is both texts with BETWEEN between."""
    first = _columns(recipe, split, recipe.data.source, recipe.data.target)
    for pair in first:
        if BETWEEN in pair.source:
            raise UserError(f"data.{split}: text {pair.line} holds the control character U+001F, which regard needs itself")
    if split == "train":
        first = first[: recipe.data.max_pairs]
    if recipe.data.second is None:
        return first
    second = _columns(recipe, split, recipe.data.second, recipe.data.target)
    return [Pair(one.source + BETWEEN + two.source, one.target, one.line) for one, two in zip(first, second)]


def _columns(recipe: Recipe, split: Split, source: str, target: str) -> list[Pair]:
    data = recipe.data
    told = getattr(data, split)
    if told is not None:
        return open_corpus(told, source, target)
    if data.name is None:
        return []
    if (split if split != "valid" else "val") not in named.NAMED[data.name].splits if data.name in named.NAMED else False:
        return []
    return open_corpus(named.find(data.name, split, source, target, data.root), source, target)
