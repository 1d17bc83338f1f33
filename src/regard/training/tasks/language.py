"""Single texts predicted from themselves: the next token, hidden tokens, tokens in a drawn order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from regard.architecture import Model
from regard.batches import Limits, ordered
from regard.batches.data import Arrays, Examples, TokenisedPairs
from regard.batches.documents import Blocks, pieces, rows_of
from regard.batches.objectives import Objective
from regard.batches.objectives_language import Masked, NextToken, Permutation
from regard.errors import UserError
from regard.evaluation.likelihood import Likelihood, likelihood
from regard.text.clean import Rules
from regard.text.corpus import Pair
from regard.text.remote import Files, at_hand
from regard.training import ranks
from regard.training.prepare import Prepared
from regard.training.recipe import Recipe
from regard.training.start import start_of
from regard.training.streaming import How, streamed
from regard.training.texts import cleaned, of_files, texts
from regard.training.tokenizers import tokenizer_of_texts
from regard.training.validate import TOKENS, Look, Verdict

GIVEN = {"language": {"head": "next"}, "masked": {"head": "masked"}, "permutation": {"head": "next"}}


def prepare(recipe: Recipe, cache: Path) -> Prepared:
    """Read texts, cut those that are too long in pieces, and lay them out as the recipe's reading says."""
    if recipe.data.stream or recipe.data.mix:
        return _streamed(recipe, cache)
    train, report = cleaned(recipe, texts(recipe, "train"))
    valid, test = texts(recipe, "valid"), texts(recipe, "test")
    if not valid:
        raise UserError("data.valid: no validation texts; name a file of texts that are not learned from")
    start = start_of(recipe)
    tokenizers = tokenizer_of_texts(recipe, [one.source for one in train], cache) if start is None else start.tokenizers
    tokenizer = tokenizers.source
    laid = [
        _laid(recipe, tokenizer, part, f"{name} data")
        for name, part in (("training", train), ("validation", valid), ("test", test))
        if part
    ]
    checked, what = laid[1].plain, objective(recipe, tokenizer)
    read = what.widths(checked.source_lengths, checked.target_lengths)[0].sum() if recipe.task.reading == "documents" else 0
    characters = sum(len(one.source) for one in valid)
    return Prepared(
        train=laid[0],
        valid=checked,
        valid_pairs=[],
        test_pairs=[],
        tokenizers=tokenizers,
        report=report,
        name=", ".join([recipe.data.name or str(recipe.data.train), *recipe.data.more]),
        notes=report.lines() if report.kept < report.total else [],
        test=laid[2].plain if len(laid) > 2 else None,
        objective=what,
        given=dict(GIVEN[recipe.task.kind]),
        start=start,
        characters=characters / max(int(read) or len(checked.source), 1),
        packed=bool((laid[0].plain.target_lengths > 1).any()),
    )


def objective(recipe: Recipe, tokenizer: Any) -> Objective:
    """What is predicted from what, with this tokenizer's ids. UserError if it has no symbol that hides tokens."""
    task, pad = recipe.task, tokenizer.pad or 0
    if task.kind == "language":
        return NextToken(pad)
    if task.kind == "permutation":
        before, after = marks_around(tokenizer)
        return Permutation(task.share or 1 / 6, fixed=len(before) + len(after), pad=pad)
    if tokenizer.mask is None:
        raise UserError("task.kind: masked needs a symbol that hides tokens, and this tokenizer has none")
    special = specials(tokenizer)
    return Masked(
        mask=tokenizer.mask,
        special=special,
        others=np.flatnonzero(~special),
        begins=beginnings(tokenizer) if task.whole_words else None,
        share=task.share or 0.15,
        pad=pad,
    )


def specials(tokenizer: Any) -> np.ndarray:
    """Bool[V], which ids are special symbols."""
    found = np.zeros(tokenizer.vocab_size, dtype=bool)
    added = tokenizer.backend.get_added_tokens_decoder()
    found[[number for number, token in added.items() if token.special]] = True
    for name in ("pad", "unk", "bos", "eos", "mask"):
        number = getattr(tokenizer, name)
        if number is not None:
            found[number] = True
    return found


def beginnings(tokenizer: Any) -> np.ndarray:
    """Bool[V], which pieces begin a word: with a space of whatever spelling, or in WordPiece all but those with ##."""
    names = [tokenizer.piece(number) for number in range(tokenizer.vocab_size)]
    if any(name.startswith("##") for name in names):
        return np.array([not name.startswith("##") for name in names])
    return np.array([name[:1] in (" ", "Ġ", "▁") for name in names])


def marks_around(tokenizer: Any) -> tuple[list[int], list[int]]:
    """The ids that stand before and after a single text."""
    before = tokenizer.template.before()
    return before, tokenizer.wrap([])[0][len(before) :]


def _streamed(recipe: Recipe, cache: Path) -> Prepared:
    """The same of texts that are never all in memory: laid out shard by shard."""
    its = recipe.data.clean
    if recipe.task.reading != "documents":
        raise UserError("data.stream: reads texts as documents, not end to end: set task.reading: documents")
    valid, test = texts(recipe, "valid"), texts(recipe, "test")
    if not valid:
        raise UserError("data.valid: no validation texts; name a file of texts that are not learned from")
    said = (recipe.task.kind, recipe.task.pack, recipe.data.max_length, recipe.data.unit)
    # empty texts are no texts, and what a target would break does not matter
    how = How(
        partial(_read, recipe.data.unit), Rules(False, False, its.drop_duplicates, None, None, None), _lay(recipe), said
    )
    found = streamed(recipe, cache, how)
    tokenizer = found.tokenizers.source
    checked = _laid(recipe, tokenizer, valid, "validation data").plain
    what = objective(recipe, tokenizer)
    read = what.widths(checked.source_lengths, checked.target_lengths)[0].sum()
    return Prepared(
        train=found.train,
        valid=checked,
        valid_pairs=[],
        test_pairs=[],
        tokenizers=found.tokenizers,
        report=found.report,
        name=found.name,
        notes=found.notes,
        test=_laid(recipe, tokenizer, test, "test data").plain if test else None,
        objective=what,
        given=dict(GIVEN[recipe.task.kind]),
        start=found.start,
        characters=sum(len(one.source) for one in valid) / max(int(read), 1),
        packed=recipe.task.pack and recipe.task.kind != "permutation",
    )


def _read(unit: str, files: Files, source: str, target: str) -> Iterator[Pair]:
    for name in files:
        with at_hand(name) as path:
            yield from of_files(path, source, unit)


def _lay(recipe: Recipe) -> Callable[[Any], Callable[[Arrays], Arrays]]:
    """From tokenizers to what lays out a shard."""

    def lay(tokenizers: Any) -> Callable[[Arrays], Arrays]:
        def shard(arrays: Arrays) -> Arrays:
            ids = [part.tolist() for part in np.split(arrays["source"], arrays["source_offsets"][1:-1])]
            made = _documents(recipe, tokenizers.source, ids, arrays["lines"].tolist(), "training data")
            return made.arrays | {"source": made.source.astype(arrays["source"].dtype)}

        return shard

    return lay


def _laid(recipe: Recipe, tokenizer: Any, found: list[Pair], name: str) -> Examples:
    """Texts as examples."""
    length, task = recipe.data.max_length, recipe.task
    ids = tokenizer.encode_batch([one.source for one in found])
    if task.kind == "language" and task.reading != "documents":
        end = [] if tokenizer.eos is None else [tokenizer.eos]
        whole = ids[0] if len(ids) == 1 else [token for one in ids for token in (*one, *end)]
        try:
            return Blocks(whole, length, recipe.training.seed, task.reading == "random", name)
        except ValueError as error:
            raise UserError(f"data: {error}; lower data.max_length") from None
    return _documents(recipe, tokenizer, ids, [one.line for one in found], name)


def _documents(recipe: Recipe, tokenizer: Any, ids: list[list[int]], where: list[int], name: str) -> TokenisedPairs:
    """Texts as examples: a document is a text with its marks, or a piece of one that is too long for a row."""
    length, task = recipe.data.max_length, recipe.task
    before, after = marks_around(tokenizer)
    spare = int(task.kind == "language")  # the last token of a document is predicted, and nothing from it
    if spare and tokenizer.eos is not None and after[-1:] != [tokenizer.eos]:
        after = [*after, tokenizer.eos]
    room = length + spare - len(before) - len(after)
    if room < 1:
        raise UserError(f"data.max_length: {length} leaves no room for a text between its marks")
    parts, owners = pieces(ids, room)
    documents = [[*before, *part, *after] for part in parts]
    kept = [i for i, one in enumerate(documents) if len(one) > spare]
    documents, lines = [documents[i] for i in kept], [where[owners[i]] for i in kept]
    if not documents:
        raise UserError(f"{name}: no text has a token")
    if task.pack and task.kind != "permutation":
        return rows_of(documents, lines, length, spare, name)
    return TokenisedPairs.from_ids(documents, [[] for _ in documents], lines, name)


def measure(model: Model, recipe: Recipe, prepared: Prepared, data: TokenisedPairs) -> Likelihood:
    """Loss of a model over texts, what is hidden or in which order drawn from fixed seeds."""
    limit = Limits(recipe.data.max_length, None, "skip")
    batches = ordered(data, max(TOKENS, recipe.data.max_length), objective=prepared.watched, limits=limit)
    return likelihood(model, batches, rank=ranks.rank(), world=ranks.world())


def look(model: Model, recipe: Recipe, prepared: Prepared) -> Look:
    """Loss and perplexity a token; of a language model bits a character too."""
    found = measure(model, recipe, prepared, prepared.valid)
    return Look(found.loss, found.token_accuracy, figures=_figures(recipe, prepared, found))


def _figures(recipe: Recipe, prepared: Prepared, found: Likelihood) -> dict[str, float]:
    figures = {"perplexity": found.perplexity}
    if recipe.task.kind == "language":
        figures["bits_per_character"] = found.loss / math.log(2) / prepared.characters
    return figures


def test(model: Model, recipe: Recipe, prepared: Prepared) -> Verdict | None:
    """The same of the test texts."""
    if prepared.test is None:
        return None
    found = measure(model, recipe, prepared, prepared.test)
    signature = f"tokens:{found.tokens}"
    values = {"loss": found.loss, "perplexity": found.perplexity, "token_accuracy": 100 * found.token_accuracy}
    return Verdict({name: {"value": round(value, 4), "signature": signature} for name, value in values.items()})
