"""From a recipe to what training reads: clean examples, tokenizers, token ids."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.batches.context import pairs_with_context, with_context
from regard.batches.data import Arrays, Examples, ResampledPairs, TokenisedPairs
from regard.batches.limits import Limits
from regard.batches.objectives import Objective, Translation
from regard.batches.windows import Streamed
from regard.decoding.context import marks_between
from regard.errors import UserError
from regard.evaluation.quality import LEAST
from regard.text import grammar, named
from regard.text.clean import Report, Rules, clean
from regard.text.corpus import Pair, open_corpus
from regard.text.grammar import Split
from regard.training.preprocess import preprocess
from regard.training.recipe import Recipe, describe_model
from regard.training.start import Start, start_of
from regard.training.tokenizers import tokenizers_of_pairs

__all__ = ["Prepared", "cache_folder", "describe_model", "limits", "prepare", "prepare_pairs", "read_split"]

STREAMED = ("translation", "language", "masked", "permutation")
GRAMMAR, DRAWN, WATCHED = "grammar-", 20_000, 500
"""How many sentences a grammar gives for training, where the recipe does not say, and for each of the other splits."""


@dataclass
class Prepared:
    """What training reads.

    train: token ids of the training examples, perhaps others each epoch. valid, test: those of the other splits; for pairs
    of texts their text instead: valid_pairs, test_pairs. tokenizers: None for images. report: what cleaning dropped.
    objective: what is predicted from what; checking: the same for validation (None: as in training). given: arguments of
    the architecture that the data decides, beside vocabularies. labels: names of classes. start: the folder that the
    model comes from. facts: what a model folder should know of the data. characters: of the validation text, a predicted
    token; 0 where that means nothing. packed: several texts share a row.
    """

    train: Examples | Streamed
    valid: TokenisedPairs
    valid_pairs: list[Pair]
    test_pairs: list[Pair]
    tokenizers: Any
    report: Report
    name: str = ""
    notes: list[str] = field(default_factory=list)
    test: TokenisedPairs | None = None
    objective: Objective | None = None
    checking: Objective | None = None
    given: dict[str, Any] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    start: Start | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    characters: float = 0.0
    packed: bool = False

    @property
    def watched(self) -> Objective | None:
        """The objective of validation and test."""
        return self.objective if self.checking is None else self.checking

    def summary(self) -> str:
        """What there is, in a few lines to read."""
        train: Any = self.train if hasattr(self.train, "windows") else self.train.plain
        what = "pairs" if self.test is None and self.valid_pairs else "examples"
        valid = len(self.valid_pairs or self.valid)
        test = len(self.test_pairs if self.test is None else self.test)
        lines = [f"data {self.name}: {len(train):,} training, {valid:,} validation, {test:,} test {what}"]
        if self.tokenizers is not None:
            sizes = self.tokenizers.source.vocab_size, self.tokenizers.target.vocab_size
            words = f"{sizes[0]:,} tokens, shared" if self.tokenizers.shared else f"{sizes[0]:,} and {sizes[1]:,} tokens"
            learned = f"{int(self.train.plain.source_lengths.sum()):,} tokens"
            if what == "pairs":
                learned = f"{train.tokens[0]:,} source and {train.tokens[1]:,} target tokens"
            elif sizes[0] == sizes[1]:
                words = f"{sizes[0]:,} tokens"
            lines.append(f"vocabulary {words}; {learned} to learn from")
            lines += self._unknown(what == "pairs")
        if self.labels:
            shown = ", ".join(self.labels[:10]) + (" …" if len(self.labels) > 10 else "")
            lines.append(f"{len(self.labels)} classes: {shown}")
        return "\n".join([*lines, *self.notes])

    def _unknown(self, both: bool) -> list[str]:
        """A line on words that the vocabulary lacks; none where it has all. both: targets are texts too."""
        found = [_count(data, self.tokenizers, both) for data in (self.train.plain, self.valid)]
        if not any(count for count, _ in found):
            return []
        told = [f"{count:,} of {total:,}" for count, total in found]
        return [f"unknown to the vocabulary: {told[0]} training tokens, {told[1]} validation tokens"]


def _count(data: TokenisedPairs, tokenizers: Any, both: bool) -> tuple[int, int]:
    """How many tokens the vocabulary lacks, and how many there are."""
    sides = [(data.source, tokenizers.source.unk), *([(data.target, tokenizers.target.unk)] if both else [])]
    return sum(int((ids == unk).sum()) for ids, unk in sides if unk is not None), sum(len(ids) for ids, _ in sides)


def cache_folder(cache_dir: Path | None = None) -> Path:
    """Where tokenizers and token ids are kept: the argument, REGARD_CACHE, or ~/.cache/regard."""
    if cache_dir is not None:
        return Path(cache_dir)
    told = os.environ.get("REGARD_CACHE")
    return Path(told).expanduser() if told else Path("~/.cache/regard").expanduser()


def limits(recipe: Recipe) -> Limits:
    """How long a side may be, and what happens to longer training pairs."""
    return Limits(recipe.data.max_length, recipe.data.max_length, recipe.training.on_long)


def held(recipe: Recipe, model: Any) -> Limits:
    """The same, held to the positions that each half of a translator has."""
    its = limits(recipe)
    if model.encoder is None or model.decoder is None:
        return its
    source, target = (
        min(recipe.data.max_length, half.limit or recipe.data.max_length) for half in (model.encoder, model.decoder)
    )
    return Limits(source, target, its.action)


def prepare(recipe: Recipe, cache_dir: Path | None = None) -> Prepared:
    """Open the corpora, clean the training examples, train or open the tokenizers, and tokenise, as the recipe's task asks.

    Tokenizers, and token ids of pairs, are cached by the content they were made from. UserError: missing or damaged files,
    an empty corpus, no validation examples.
    """
    from regard.training import tasks

    if (recipe.data.stream or recipe.data.mix) and recipe.task.kind not in STREAMED:
        raise UserError(f"data.stream: is for tasks of kind {', '.join(STREAMED)}, not {recipe.task.kind}")
    return tasks.find(recipe.task.kind).prepare(recipe, cache_folder(cache_dir))


def prepare_pairs(recipe: Recipe, cache: Path) -> Prepared:
    """What translation, or any text from another, reads."""
    if recipe.data.stream or recipe.data.mix:
        from regard.training.streaming import prepare_stream

        return prepare_stream(recipe, cache)
    pairs, report = clean(read_split(recipe, "train"), rules(recipe))
    if not pairs:
        raise UserError(f"data.train: no pair is left of {report.total} after cleaning; {'; '.join(report.lines())}")
    valid = watched_pairs(recipe)
    start = start_of(recipe)
    tokenizers = tokenizers_of_pairs(recipe, pairs, cache) if start is None else start.tokenizers
    objective = Translation.of(tokenizers) if start is None else start.translation()
    folder, told = cache / "tokens", Sentences.of(recipe, tokenizers, objective)
    train: Examples = told(TokenisedPairs.build(pairs, tokenizers, folder, name="training data"), vary=True)
    if recipe.tokenizer.dropout:
        train = ResampledPairs(pairs, tokenizers, recipe.training.seed, train.plain)
    return Prepared(
        train,
        told(TokenisedPairs.build(valid, tokenizers, folder, name="validation data"), vary=False),
        valid,
        read_split(recipe, "test"),
        tokenizers,
        report,
        recipe.data.name or str(recipe.data.train),
        report.lines() if len(pairs) < report.total else [],
        objective=objective,
        start=start,
        facts=told.facts,
    )


@dataclass(frozen=True)
class Sentences:
    """How many sentences of its document stand before each. between: the ids that part them; most: tokens of a side."""

    count: int
    between: tuple[int, int]
    most: int

    @classmethod
    def of(cls, recipe: Recipe, tokenizers: Any, objective: Translation) -> Sentences:
        """As a recipe says. UserError: with BPE-dropout, or the vocabulary has no marks for it."""
        count, most = recipe.data.context, recipe.data.max_length - 1  # and the end mark
        if not count:
            return cls(0, (0, 0), most)
        if recipe.tokenizer.dropout:
            raise UserError("tokenizer.dropout: splits each sentence anew, data.context learns from several: set one to 0")
        return cls(count, marks_between(tokenizers, objective.bos), most)

    @property
    def facts(self) -> dict[str, Any]:
        """What a model folder should know."""
        return {"context": {"sentences": self.count, "tokens": self.most + 1}} if self.count else {}

    def arrays(self, arrays: Arrays) -> Arrays:
        """The arrays of a shard to learn from, likewise."""
        return with_context(arrays, self.count, self.between, self.most, vary=True)

    def __call__(self, pairs: TokenisedPairs, vary: bool) -> TokenisedPairs:
        """Examples with those before them; of those to learn from (`vary`) now more, now fewer."""
        return pairs_with_context(pairs, self.count, self.between, self.most, vary)


def watched_pairs(recipe: Recipe) -> list[Pair]:
    """The validation pairs. UserError: there are none, or too few for an estimate of quality to be fitted."""
    valid = [pair for pair in read_split(recipe, "valid") if pair.source.strip() and pair.target.strip()]
    if not valid:
        raise UserError("data.valid: no validation pairs; name a file of pairs that are not learned from")
    if recipe.evaluation.calibrate and len(valid) < LEAST:
        raise UserError(f"evaluation.calibrate: needs {LEAST} validation pairs or more, these are {len(valid)}")
    return valid


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
        pairs = grammar.sentences(data.name, count_of(recipe, split), split=split)
    else:
        pairs = open_corpus(named.find(data.name, split, data.source, data.target, data.root), data.source, data.target)
    if split == "train" and data.max_pairs is not None:
        pairs = pairs[: data.max_pairs]
    return preprocess(pairs, data.preprocess, data.source, data.target)


def count_of(recipe: Recipe, split: str) -> int:
    """How many sentences a grammar gives for a split."""
    return (recipe.data.max_pairs or DRAWN) if split == "train" else WATCHED
