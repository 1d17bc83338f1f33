"""Texts from damaged ones: T5's spans and BART's noise, for models with an encoder and a decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from regard.architecture import Model
from regard.batches.data import TokenisedPairs
from regard.batches.documents import pieces
from regard.batches.objectives import Objective
from regard.batches.objectives_corrupt import Denoising, Spans
from regard.errors import UserError
from regard.text.corpus import Pair
from regard.training.prepare import Prepared
from regard.training.recipe import Recipe
from regard.training.start import Start, start_of
from regard.training.tasks import language
from regard.training.texts import cleaned, texts
from regard.training.tokenizers import SENTINELS, tokenizer_of_texts
from regard.training.validate import Look, Verdict

ENDS = (".", "!", "?", "。", "！", "？", "…")
"""What a token that ends a sentence ends with."""


def prepare(recipe: Recipe, cache: Path) -> Prepared:
    """Read texts and cut those that are too long in pieces."""
    train, report = cleaned(recipe, texts(recipe, "train"))
    valid, test = texts(recipe, "valid"), texts(recipe, "test")
    if not valid:
        raise UserError("data.valid: no validation texts; name a file of texts that are not learned from")
    start = start_of(recipe)
    tokenizers = tokenizer_of_texts(recipe, [one.source for one in train], cache) if start is None else start.tokenizers
    return Prepared(
        train=_laid(recipe, tokenizers.source, train, "training data"),
        valid=_laid(recipe, tokenizers.source, valid, "validation data"),
        valid_pairs=[],
        test_pairs=[],
        tokenizers=tokenizers,
        report=report,
        name=", ".join([recipe.data.name or str(recipe.data.train), *recipe.data.more]),
        notes=report.lines() if report.kept < report.total else [],
        test=_laid(recipe, tokenizers.source, test, "test data") if test else None,
        objective=objective(recipe, tokenizers.source, start),
        start=start,
    )


def _laid(recipe: Recipe, tokenizer: Any, found: list[Pair], name: str) -> TokenisedPairs:
    room = recipe.data.max_length - len(tokenizer.wrap([])[0]) - 1
    if room < 2:
        raise UserError(f"data.max_length: {recipe.data.max_length} leaves no room for a text between its marks")
    parts, owners = pieces(tokenizer.encode_batch([one.source for one in found]), room)
    return TokenisedPairs.from_ids(parts, [[] for _ in parts], [found[owner].line for owner in owners], name)


def objective(recipe: Recipe, tokenizer: Any, start: Start | None) -> Objective:
    """The damage that the recipe names, in this tokenizer's ids. UserError if it lacks the symbols."""
    task = recipe.task
    ids = start.translation() if start is not None else None
    pad = tokenizer.pad if ids is None else ids.pad
    first = tokenizer.bos if ids is None else ids.bos
    eos = tokenizer.eos if ids is None else ids.eos
    if task.kind == "spans":
        found = [tokenizer.backend.token_to_id(name) for name in SENTINELS]
        sentinels = tuple(number for number in found if number is not None)
        if not sentinels:
            raise UserError(f"task.kind: spans needs symbols such as {SENTINELS[0]}, and this tokenizer has none")
        return Spans(sentinels, task.share or 0.15, task.span, pad, first, eos)
    if tokenizer.mask is None:
        raise UserError("task.kind: denoising needs a symbol that hides tokens, and this tokenizer has none")
    before, after = language.marks_around(tokenizer)
    names = [tokenizer.piece(number) for number in range(tokenizer.vocab_size)]
    return Denoising(
        mask=tokenizer.mask,
        ends=np.array([name.endswith(ENDS) for name in names]),
        share=task.share or 0.3,
        mean=task.span,
        shuffle=task.shuffle,
        delete=task.delete,
        rotate=task.rotate,
        before=tuple(before),
        after=tuple(after),
        start=first,
        pad=pad,
    )


def look(model: Model, recipe: Recipe, prepared: Prepared) -> Look:
    """Loss and perplexity a token, the damage drawn from fixed seeds."""
    found = language.measure(model, recipe, prepared, prepared.valid)
    return Look(found.loss, found.token_accuracy, figures={"perplexity": found.perplexity})


def test(model: Model, recipe: Recipe, prepared: Prepared) -> Verdict | None:
    """The same of the test texts."""
    return language.test(model, recipe, prepared)
