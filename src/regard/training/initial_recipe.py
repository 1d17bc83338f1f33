"""A first recipe for somebody's own parallel text: read, checked, split, and settings chosen from its size.

Little data wants small models (Wu et al. 2021, arXiv 2105.14462): on the 29,000 pairs of Multi30k 3+2 layers of 128 did
better than anything larger in the same time.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.text.clean import Report, clean
from regard.text.corpus import Pair, open_corpus
from regard.training.recipe import Recipe
from regard.training.recipe import check as checked
from regard.training.recipe_files import gather, merged
from regard.training.yaml_source import Source

BASE = "multi30k-en-fr"
"""The recipe that all settings come from which are not chosen here."""
FEWEST = 20
"""Pairs below which nothing can be learned or measured."""


@dataclass(frozen=True)
class Wish:
    """What `regard init` was asked for. data, valid, test: files of pairs (.tsv, .jsonl, .parquet or SOURCE,TARGET);
    without valid or test, both are split off data."""

    data: str
    source: str
    target: str
    output: Path
    valid: str | None = None
    test: str | None = None


@dataclass(frozen=True)
class Written:
    """What `regard init` wrote. files: the recipe first. counts: pairs a split. report: what cleaning dropped."""

    files: list[Path]
    counts: dict[str, int]
    report: Report
    recipe: Recipe


@dataclass(frozen=True)
class Measured:
    """What the settings are chosen from. words: mean words a side. characters: mean characters of the longer side.
    alike: share of the target's letters that the source has too, counted as they occur."""

    pairs: int
    words: float
    characters: float
    longest: int
    alike: float


def write_initial_recipe(wish: Wish) -> Written:
    """Read, clean and split the pairs, choose settings, write the recipe and the split files beside it.

    UserError if the data cannot be read, is too little, or any file to be written exists: nothing is overwritten.
    """
    split = wish.valid is None or wish.test is None
    parts = ("train", "valid", "test") if split else ()
    files = [wish.output, *(wish.output.with_name(f"{wish.output.stem}.{part}.jsonl") for part in parts)]
    for path in files:
        if path.exists() or path.is_symlink():
            raise UserError(f"{path} exists and is not overwritten; choose another --output")
    kept, report = clean(open_corpus(wish.data, wish.source, wish.target))
    if len(kept) < FEWEST:
        raise UserError(
            f"{wish.data}: {len(kept)} pairs are left; at least {FEWEST} are needed ({'; '.join(report.lines())})"
        )
    splits = _splits(kept, wish) if split else {"train": kept}
    recipe = _recipe(measure(splits["train"]), wish, files[1:])
    texts = [_header(recipe, splits, wish) + recipe.to_yaml(comments=True)]
    texts += [_jsonl(splits[part], wish) for part in parts]
    for path, text in reversed(list(zip(files, texts, strict=True))):
        _write(path, text)
    return Written(files, {name: len(part) for name, part in splits.items()}, report, recipe)


def measure(pairs: Sequence[Pair]) -> Measured:
    """Size and shape of a corpus; pairs must not be empty."""
    words = sum(len(pair.source.split()) + len(pair.target.split()) for pair in pairs) / (2 * len(pairs))
    lengths = [max(len(pair.source), len(pair.target)) for pair in pairs]
    known = {letter for pair in pairs for letter in pair.source.casefold() if letter.isalpha()}
    letters = [letter for pair in pairs for letter in pair.target.casefold() if letter.isalpha()]
    alike = sum(letter in known for letter in letters) / max(len(letters), 1)
    return Measured(len(pairs), words, sum(lengths) / len(lengths), max(lengths), alike)


def split_off(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """Pairs as "train", "valid" and "test", by a hash of the source: the same text always gives the same splits, in
    whatever order it stands, and no source sentence is in two (letters and digits count, case does not). A twentieth of
    the pairs, at most 1,000, goes to each of valid and test."""
    groups: dict[str, list[Pair]] = {}
    for pair in pairs:
        groups.setdefault(_sentence(pair.source), []).append(pair)
    if len(groups) < 3:
        raise UserError(f"the data has only {len(groups)} different source sentences; give --valid and --test files")
    wanted = max(1, min(1000, len(pairs) // 20))
    order = sorted(groups, key=lambda key: hashlib.sha256(key.encode()).digest())
    splits: dict[str, list[Pair]] = {"valid": [], "test": [], "train": []}
    for key in order:
        part = next((name for name in ("valid", "test") if len(splits[name]) < wanted), "train")
        splits[part] += groups[key]
    if not splits["train"]:
        raise UserError("one source sentence makes up most of the data; give --valid and --test files")
    return {name: sorted(splits[name], key=lambda pair: pair.line) for name in ("train", "valid", "test")}


def _sentence(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(letter for letter in folded if letter.isalnum()) or folded.strip()


def _splits(pairs: list[Pair], wish: Wish) -> dict[str, list[Pair]]:
    """The three splits; a file that was given keeps its place, and its source sentences leave the training pairs."""
    made = split_off(pairs)
    for name in ("valid", "test"):
        given = getattr(wish, name)
        if given is not None:
            made["train"] = sorted(made["train"] + made[name], key=lambda pair: pair.line)
            made[name] = open_corpus(given, wish.source, wish.target)
            held = {_sentence(pair.source) for pair in made[name]}
            for part in ("train", "valid", "test"):
                if part != name:
                    made[part] = [pair for pair in made[part] if _sentence(pair.source) not in held]
    return made


@dataclass(frozen=True)
class Scale:
    """Settings for corpora of up to so many pairs."""

    pairs: int
    size: str
    layers: tuple[int, int]
    dropout: float
    vocabulary: int
    optimizer: str
    rate: float
    minutes: int


SCALES = (
    Scale(3_000, "tiny", (2, 2), 0.3, 1_000, "muon", 8e-3, 5),
    Scale(15_000, "tiny", (3, 2), 0.2, 2_000, "muon", 8e-3, 15),
    Scale(60_000, "tiny", (3, 2), 0.1, 4_000, "muon", 8e-3, 20),
    Scale(300_000, "tiny", (3, 2), 0.1, 8_000, "muon", 8e-3, 60),
    Scale(2_000_000, "small", (3, 3), 0.1, 16_000, "adam", 1e-3, 600),
    Scale(10**12, "base", (6, 6), 0.1, 32_000, "adam", 7e-4, 2880),
)
"""The third is what was measured best on Multi30k; Muon's rate for wider models was not measured, so they have Adam."""


def choose(measured: Measured) -> dict[str, Any]:
    """Sections of a recipe for a corpus of this size and shape."""
    scale = next(scale for scale in SCALES if measured.pairs <= scale.pairs)
    small = measured.pairs <= 300_000
    tokens = int(measured.pairs * max(measured.words, measured.characters / 5) * 1.3)
    budget = 1500 if small else 4000
    budget = max(200, min(budget, tokens // 10))
    updates = max(1, tokens // budget)
    every = max(50, min(1000, updates * 2))
    shared = measured.alike > 0.5
    return {
        "tokenizer": {"kind": "unigram", "vocab_size": scale.vocabulary, "shared": shared},
        "model": {
            "size": scale.size,
            "num_layers": scale.layers[0],
            "decoder_layers": scale.layers[1],
            "placement": "pre",
            "dropout": scale.dropout,
        },
        "training": {
            "max_minutes": float(scale.minutes),
            "batch_tokens": budget,
            "optimizer": scale.optimizer,
            "learning_rate": scale.rate,
            "warmup_steps": 150 if small else 2000,
            "schedule": "linear",
            "evaluate_every": every,
            "monitor": "bleu" if measured.pairs > 15_000 else "chrf",
            "save_every": every,
        },
    }


def _recipe(measured: Measured, wish: Wish, split: list[Path]) -> Recipe:
    given = [wish.data, wish.valid, wish.test]
    train, valid, test = [path.name for path in split] or [_absolute(spec) for spec in given if spec is not None]
    data = {"source": wish.source, "target": wish.target, "train": train, "valid": valid, "test": test}
    about = f"{wish.source} to {wish.target}, from {Path(wish.data.split(',')[0]).name}"
    base = {key: value for key, value in gather(BASE).values.items() if key != "data"}
    own = {"name": wish.output.stem, "description": about, "data": data, **choose(measured)}
    return checked(Source(merged(base, own), {}, str(wish.output)))


def _absolute(spec: str) -> str:
    whole = Path(spec).expanduser()
    parts = [spec] if os.path.exists(whole) else spec.split(",")
    return ",".join(os.path.abspath(Path(part).expanduser()) for part in parts)


def _header(recipe: Recipe, splits: dict[str, list[Pair]], wish: Wish) -> str:
    found = measure(splits["train"])
    vocabulary = recipe.tokenizer.vocab_size
    lines = [
        f"Written by `regard init` for {wish.data}: {found.pairs:,} training pairs of {found.words:.1f} words on average.",
        f"Chosen for that size: the model ({recipe.model.size}), its dropout, a vocabulary of {vocabulary:,}, the batches,",
        "the learning rate and the minutes. Everything else is a default; all of it may be changed.",
        "",
        f"  regard plan {wish.output}",
        f"  regard train {wish.output} output=runs/{wish.output.stem}",
    ]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines) + "\n"


def _jsonl(pairs: Sequence[Pair], wish: Wish) -> str:
    names = ("src", "tgt") if wish.source == wish.target else (wish.source, wish.target)
    rows = (dict(zip(names, (pair.source, pair.target), strict=True)) for pair in pairs)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _write(path: Path, text: str) -> None:
    """Write a new file whole or not at all; an existing one is never replaced."""
    try:
        handle, aside = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(aside, 0o644)
        os.link(aside, path)
    except FileExistsError:
        raise UserError(f"{path} exists and is not overwritten; choose another --output") from None
    finally:
        os.unlink(aside)
