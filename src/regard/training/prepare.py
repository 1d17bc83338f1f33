"""From a recipe to what training reads: clean pairs, tokenizers, token ids."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from regard.batches.data import Examples, ResampledPairs, TokenisedPairs
from regard.batches.limits import Limits
from regard.errors import UserError
from regard.text import grammar, named
from regard.text.clean import Report, Rules, clean
from regard.text.corpus import Pair, open_corpus
from regard.text.grammar import Split
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.training.preprocess import preprocess
from regard.training.recipe import Recipe, describe_model

__all__ = ["Prepared", "cache_folder", "describe_model", "limits", "prepare", "read_split"]

GRAMMAR, DRAWN, WATCHED = "grammar-", 20_000, 500
"""How many sentences a grammar gives for training, where the recipe does not say, and for each of the other splits."""


@dataclass
class Prepared:
    """What training reads.

    train: token ids of the training pairs, without specials, drawn anew each epoch with BPE-dropout. valid: token ids of
    the validation pairs. valid_pairs, test_pairs: their text. report: what cleaning dropped.
    """

    train: Examples
    valid: TokenisedPairs
    valid_pairs: list[Pair]
    test_pairs: list[Pair]
    tokenizers: Tokenizers
    report: Report
    name: str = ""
    notes: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """What there is, in a few lines to read."""
        sizes = self.tokenizers.source.vocab_size, self.tokenizers.target.vocab_size
        words = f"{sizes[0]:,} tokens, shared" if self.tokenizers.shared else f"{sizes[0]:,} and {sizes[1]:,} tokens"
        plain = self.train.plain
        lines = [
            f"data {self.name}: {len(plain):,} training, {len(self.valid_pairs):,} validation,"
            f" {len(self.test_pairs):,} test pairs",
            f"vocabulary {words}; {len(plain.source):,} source and {len(plain.target):,} target tokens to learn from",
        ]
        return "\n".join([*lines, *self.notes])


def cache_folder(cache_dir: Path | None = None) -> Path:
    """Where tokenizers and token ids are kept: the argument, REGARD_CACHE, or ~/.cache/regard."""
    if cache_dir is not None:
        return Path(cache_dir)
    told = os.environ.get("REGARD_CACHE")
    return Path(told).expanduser() if told else Path("~/.cache/regard").expanduser()


def limits(recipe: Recipe) -> Limits:
    """How long a side may be, and what happens to longer training pairs."""
    return Limits(recipe.data.max_length, recipe.data.max_length, recipe.training.on_long)


def prepare(recipe: Recipe, cache_dir: Path | None = None) -> Prepared:
    """Open the corpora, clean the training pairs, train or open the tokenizers, and tokenise.

    Tokenizers and token ids are cached by the content they were made from. UserError: missing or damaged files, an
    empty corpus, no validation pairs.
    """
    cache = cache_folder(cache_dir)
    pairs, report = clean(read_split(recipe, "train"), rules(recipe))
    if not pairs:
        raise UserError(f"data.train: no pair is left of {report.total} after cleaning; {'; '.join(report.lines())}")
    valid = [pair for pair in read_split(recipe, "valid") if pair.source.strip() and pair.target.strip()]
    if not valid:
        raise UserError("data.valid: no validation pairs; name a file of pairs that are not learned from")
    tokenizers = _tokenizers(recipe, pairs, cache)
    folder = cache / "tokens"
    train: Examples = TokenisedPairs.build(pairs, tokenizers, folder, name="training data")
    if recipe.tokenizer.dropout:
        train = ResampledPairs(pairs, tokenizers, recipe.training.seed, train.plain)
    return Prepared(
        train,
        TokenisedPairs.build(valid, tokenizers, folder, name="validation data"),
        valid,
        read_split(recipe, "test"),
        tokenizers,
        report,
        recipe.data.name or str(recipe.data.train),
        report.lines() if len(pairs) < report.total else [],
    )


def rules(recipe: Recipe) -> Rules:
    """The cleaning rules of a recipe."""
    return Rules(**recipe.data.clean.model_dump())


def read_split(recipe: Recipe, split: Split) -> list[Pair]:
    """The pairs of "train", "valid" or "test", preprocessed; [] where the recipe names no valid or test pairs."""
    data = recipe.data
    told = getattr(data, split)
    if told is not None:
        pairs = open_corpus(told, data.source, data.target)
    elif data.name is None:
        return []
    elif data.name.startswith(GRAMMAR):
        pairs = grammar.sentences(data.name, _count(recipe, split), split=split)
    else:
        pairs = open_corpus(named.find(data.name, split, data.source, data.target, data.root), data.source, data.target)
    if split == "train" and data.max_pairs is not None:
        pairs = pairs[: data.max_pairs]
    return preprocess(pairs, data.preprocess, data.source, data.target)


def _count(recipe: Recipe, split: str) -> int:
    return (recipe.data.max_pairs or DRAWN) if split == "train" else WATCHED


def _plans(recipe: Recipe) -> tuple[Plan, Plan]:
    its = recipe.tokenizer
    common: dict[str, Any] = {"lowercase": its.lowercase, "normalization": its.normalization}
    kinds = its.kind, its.target_kind or its.kind
    sizes = its.vocab_size, its.target_vocab_size or its.vocab_size
    source, target = (
        Plan(kind=kind, vocab_size=size, dropout=its.dropout if kind == "bpe" else 0.0, **common)
        for kind, size in zip(kinds, sizes, strict=True)
    )
    return source, target


def _tokenizers(recipe: Recipe, pairs: Sequence[Pair], cache: Path) -> Tokenizers:
    """Open the tokenizers made from the same text by the same plan before, or train them and keep them."""
    plans, its = _plans(recipe), recipe.tokenizer
    folder = cache / "tokenizers" / _key(plans, its.shared, its.extra, pairs)
    if folder.is_dir():
        return _open(folder, plans)
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    if its.shared:
        both = train_tokenizer(chain.from_iterable(zip(sources, targets, strict=True)), plans[0], its.extra)
        made = Tokenizers(both, both, True)
    else:
        left, right = (
            train_tokenizer(texts, plan, its.extra) for texts, plan in zip((sources, targets), plans, strict=True)
        )
        made = Tokenizers(left, right, False)
    _keep(made, folder)
    return _open(folder, plans)


def _open(folder: Path, plans: tuple[Plan, Plan]) -> Tokenizers:
    """What was kept, with the dropout that files do not hold."""
    tokenizers = Tokenizers.open(folder)
    tokenizers.source.dropout = plans[0].dropout
    if not tokenizers.shared:
        tokenizers.target.dropout = plans[1].dropout
    return tokenizers


def _key(plans: tuple[Plan, Plan], shared: bool, extra: Sequence[str], pairs: Sequence[Pair]) -> str:
    said = [vars(plan) for plan in plans], shared, list(extra)
    found = hashlib.sha256(json.dumps(("regard-tokenizers-1", said), sort_keys=True).encode())
    for pair in pairs:
        for text in (pair.source, pair.target):
            raw = text.encode()
            found.update(b"%d\n%b" % (len(raw), raw))
    return found.hexdigest()


def _keep(made: Tokenizers, folder: Path) -> None:
    """Write the tokenizers aside and rename, so that the folder is whole or absent."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name[:16]}-", dir=folder.parent))
    try:
        made.save(aside)
        os.replace(aside, folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
