"""Corpora larger than memory, prepared: read twice, a piece at a time, into shards of token ids on disk."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from regard.batches.data import Arrays, TokenisedPairs, write_shard
from regard.batches.objectives import Translation
from regard.batches.shards import MANIFEST, Corpus, Shards, shard_path, shares_of
from regard.errors import UserError
from regard.files import write_json
from regard.text.clean import Found, Report, Rules
from regard.text.corpus import Pair
from regard.text.remote import Files, files_of, identity, pairs_of
from regard.text.tokenizer import Tokenizers
from regard.training.encoding import Made, Piece, Work, cleaned, encode
from regard.training.journal import counting
from regard.training.prepare import Prepared, Sentences, read_split, rules, watched_pairs
from regard.training.recipe import Recipe
from regard.training.sections import Part
from regard.training.start import Start, start_of
from regard.training.tokenizers import tokenizers_of_sample

SHARD, SAMPLE = 10_000, 200_000
"""Pairs of a shard, and so many at most that vocabularies are learned from, drawn at random."""
FORMAT = "regard-shards-1"


@dataclass
class Looked:
    """What a first reading of a corpus tells. again: Bool[N], which pairs stood before; usual: characters of a target for
    one of its source (median); sample: pairs drawn evenly."""

    again: np.ndarray
    usual: float
    sample: list[Pair] = field(default_factory=list)


@dataclass
class Source:
    """A corpus of the recipe: its part, its files, and what tells them from others."""

    part: Part
    files: list[Files]
    identity: str

    @property
    def name(self) -> str:
        """For messages."""
        return self.part.train


@dataclass(frozen=True)
class How:
    """How a kind of task reads corpora. read: the examples of files; rules: which of them pass; lay: what becomes of a
    shard's arrays, given the tokenizers (None: nothing); said: what that depends on."""

    read: Callable[[Files, str, str], Iterator[Pair]]
    rules: Rules
    lay: Callable[[Any], Callable[[Arrays], Arrays]] | None = None
    said: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Streamed:
    """What is learned from, prepared."""

    train: Shards
    tokenizers: Any
    start: Start | None
    report: Report
    name: str
    notes: list[str]


def prepare_stream(recipe: Recipe, cache: Path) -> Prepared:
    """What translation reads, from corpora that are never in memory as a whole. UserError as for others, and for what needs
    all texts at hand (BPE-dropout, named data sets)."""
    valid, how = watched_pairs(recipe), How(pairs_of, rules(recipe))
    if recipe.data.context:
        said = ("context", recipe.data.context, recipe.data.max_length, recipe.model.folder)
        how = replace(how, lay=lambda its: _told(recipe, its, start_of(recipe)).arrays, said=said)
    found = streamed(recipe, cache, how)
    told = _told(recipe, found.tokenizers, found.start)
    return Prepared(
        train=found.train,
        valid=told(TokenisedPairs.build(valid, found.tokenizers, cache / "tokens", name="validation data"), vary=False),
        valid_pairs=valid,
        test_pairs=read_split(recipe, "test"),
        tokenizers=found.tokenizers,
        report=found.report,
        name=found.name,
        notes=found.notes,
        objective=_objective(found.tokenizers, found.start),
        start=found.start,
        facts=told.facts,
    )


def _objective(tokenizers: Any, start: Start | None) -> Translation:
    return Translation.of(tokenizers) if start is None else start.translation()


def _told(recipe: Recipe, tokenizers: Any, start: Start | None) -> Sentences:
    return Sentences.of(recipe, tokenizers, _objective(tokenizers, start))


def streamed(recipe: Recipe, cache: Path, how: How) -> Streamed:
    """A recipe's training corpora in shards, and its tokenizers, made now or before."""
    sources, data = sources_of(recipe), recipe.data
    if recipe.tokenizer.dropout:
        raise UserError("tokenizer.dropout: splits all texts anew each epoch, which data.stream does not hold: set it to 0")
    looked: dict[int, Looked] = {}
    start = start_of(recipe)
    if start is None:
        said = json.dumps([FORMAT, [source.identity for source in sources], data.temperature, how.said])
        tags = [source.part.tag for source in sources if source.part.tag]
        folder = tokenizers_of_sample(recipe, said, tags, lambda: _samples(recipe, how, sources, looked), cache)
        tokenizers = Tokenizers.open(folder)
    else:
        folder, tokenizers = start.folder, start.tokenizers
    made = [_prepared(recipe, how, source, (folder, tokenizers), looked.get(n), cache) for n, source in enumerate(sources)]
    weights = shares_of([one.size for one, _ in made], [source.part.weight for source in sources], data.temperature)
    corpora = [replace(one, weight=weight) for (one, _), weight in zip(made, weights)]
    notes = [f"{source.name}: {'; '.join(report.lines())}" for source, (_, report) in zip(sources, made)]
    if len(corpora) > 1:
        notes += [f"{source.name}: {weight:.1%} of what is read" for source, weight in zip(sources, weights)]
    return Streamed(
        train=Shards(corpora, recipe.training.seed, data.buffer),
        tokenizers=tokenizers,
        start=start,
        report=_sum([report for _, report in made]),
        name=", ".join(source.name for source in sources),
        notes=notes,
    )


def sources_of(recipe: Recipe) -> list[Source]:
    """The corpora that a recipe streams. UserError: a file is missing, or it names none."""
    data = recipe.data
    if not data.mix and data.train is None:
        raise UserError("data.stream: reads files: give data.train, or data.mix; named data sets fit into memory")
    parts = list(data.mix) or [Part(train=str(data.train), source=data.source, target=data.target)]
    found = []
    for part in parts:
        source, target = part.source or data.source, part.target or data.target
        files = files_of(part.train, source, target)
        told = [identity(name) for each in files for name in each]
        said = json.dumps([told, source, target, part.tag, data.max_pairs])
        found.append(Source(part, files, hashlib.sha256(said.encode()).hexdigest()))
    return found


def _pairs(recipe: Recipe, how: How, source: Source, what: str) -> Iterator[Pair]:
    data = recipe.data
    sides = source.part.source or data.source, source.part.target or data.target
    every = (pair for files in source.files for pair in how.read(files, *sides))
    return counting(islice(every, data.max_pairs), f"{what} {source.name}")


def _look(recipe: Recipe, how: How, source: Source, sample: int) -> Looked:
    """Read a corpus once: which pairs repeat, how lengths relate, and a sample."""
    hashes, ratios = _Numbers(np.int64), _Numbers(np.float32)
    draw, drawn = random.Random(recipe.training.seed), []
    for number, pair in enumerate(_pairs(recipe, how, source, "reading")):
        hashes.add(hash((pair.source.strip(), pair.target.strip())))
        if pair.source and pair.target:
            ratios.add(len(pair.target) / len(pair.source))
        if number < sample:
            drawn.append(pair)
        elif (place := draw.randrange(number + 1)) < sample:
            drawn[place] = pair
    found = hashes.array()
    if not len(found):
        raise UserError(f"data.train: {source.name} holds no text")
    again = repeats(found) if recipe.data.clean.drop_duplicates else np.zeros(len(found), dtype=bool)
    lengths = ratios.array()
    return Looked(again, float(np.median(lengths)) if len(lengths) else 1.0, drawn)


class _Numbers:
    """A growing array, a number at a time."""

    def __init__(self, kind: type) -> None:
        self.kind, self.full, self.held = kind, [np.zeros(0, dtype=kind)], []

    def add(self, number: float) -> None:
        self.held.append(number)
        if len(self.held) == 1 << 16:
            self.full.append(np.array(self.held, dtype=self.kind))
            self.held = []

    def array(self) -> np.ndarray:
        self.full, self.held = [np.concatenate([*self.full, np.array(self.held, dtype=self.kind)])], []
        return self.full[0]


def repeats(hashes: np.ndarray) -> np.ndarray:
    """Int[N] -> Bool[N], which equal one before them."""
    order = np.argsort(hashes, kind="stable")
    found = np.zeros(len(hashes), dtype=bool)
    ordered = hashes[order]
    found[order[1:]] = ordered[1:] == ordered[:-1]
    return found


def _samples(recipe: Recipe, how: How, sources: list[Source], looked: dict[int, Looked]) -> list[Pair]:
    """Examples of all corpora, cleaned, that vocabularies are learned from: of each as many as it is read."""
    each = max(SAMPLE // len(sources), 1)
    for number, source in enumerate(sources):
        looked[number] = _look(recipe, how, source, each)
    weights = [source.part.weight for source in sources]
    shares = shares_of([len(looked[n].again) for n in range(len(sources))], weights, recipe.data.temperature)
    most = max(shares)
    found: list[Pair] = []
    for number, source in enumerate(sources):
        sample = looked[number].sample[: max(round(each * shares[number] / most), 1)]
        work = _work(recipe, how, source, "", looked[number].usual)
        found += cleaned(sample, np.zeros(len(sample), dtype=bool), work)[0]
        looked[number].sample = []
    if not found:
        raise UserError("data.train: nothing is left after cleaning")
    return found


def _work(recipe: Recipe, how: How, source: Source, tokenizers: str, usual: float) -> Work:
    data = recipe.data
    sides = source.part.source or data.source, source.part.target or data.target
    return Work(tokenizers, how.rules, tuple(data.preprocess), *sides, usual=usual, tag=source.part.tag)


def _prepared(
    recipe: Recipe, how: How, source: Source, tokenizers: tuple[Path, Any], seen: Looked | None, cache: Path
) -> tuple[Corpus, Report]:
    """A corpus's shards, made now or before from the same files in the same way."""
    place, its = tokenizers
    told = [source.identity, list(recipe.data.preprocess), vars(how.rules), its.source.hash, its.target.hash, how.said]
    key = hashlib.sha256(json.dumps([FORMAT, SHARD, told]).encode()).hexdigest()
    folder = cache / "shards" / key
    if not (folder / MANIFEST).is_file():
        seen = seen or _look(recipe, how, source, 0)
        work = _work(recipe, how, source, str(place), seen.usual)
        pieces = _pieces(_pairs(recipe, how, source, "preparing"), seen.again)
        made = encode(pieces, work, recipe.data.workers or os.cpu_count() or 1)
        if how.lay is not None:
            lay = how.lay(its)
            made = ((lay(arrays) if len(arrays["lines"]) else arrays, report) for arrays, report in made)
        _write(folder, key, made)
    found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    report = _report(found["report"])
    if not sum(found["counts"]):
        raise UserError(f"data.train: {source.name}: nothing is left; {'; '.join(report.lines())}")
    return Corpus(folder, key, tuple(found["counts"]), tuple(found["tokens"])), report


def _pieces(pairs: Iterable[Pair], again: np.ndarray) -> Iterator[Piece]:
    pairs, at = iter(pairs), 0
    while piece := list(islice(pairs, SHARD)):
        yield piece, again[at : at + len(piece)]
        at += len(piece)


def _write(folder: Path, key: str, pieces: Iterable[Made]) -> None:
    """Write shards aside and rename their folder, so that it is whole or absent."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{key[:16]}-", dir=folder.parent))
    counts, tokens, reports = [], [0, 0], []
    try:
        for arrays, report in pieces:
            reports.append(report)
            if len(arrays["lines"]):
                write_shard(shard_path(aside, len(counts)), key, arrays)
                counts.append(len(arrays["lines"]))
                tokens = [tokens[0] + len(arrays["source"]), tokens[1] + len(arrays["target"])]
        write_json(aside / MANIFEST, {"counts": counts, "tokens": tokens, "report": _sum(reports).json()})
        try:
            os.replace(aside, folder)
        except OSError:
            if not (folder / MANIFEST).is_file():  # somebody else was faster
                raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _sum(reports: list[Report]) -> Report:
    """What was found in several pieces."""
    total = Report(sum(one.total for one in reports), sum(one.kept for one in reports), {}, {}, [])
    for report in reports:
        for into, its in ((total.rules, report.rules), (total.remarks, report.remarks)):
            for name, found in its.items():
                into.setdefault(name, Found()).merge(found)
    return total


def _report(told: dict[str, Any]) -> Report:
    """A report as `json` gave it."""
    rules_, remarks = ({name: Found(**one) for name, one in told[kind].items()} for kind in ("rules", "remarks"))
    return Report(told["total"], told["kept"], rules_, remarks, [])
