"""A class for each text, or for each pair of texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard.architecture import Model
from regard.batches import Limits, ordered
from regard.batches.data import Examples, TokenisedPairs
from regard.batches.objectives import Objective
from regard.batches.objectives_classes import Classes, segment_counts
from regard.errors import UserError
from regard.evaluation.classes import accuracy, macro_f1
from regard.layers.heads import IGNORED
from regard.text.corpus import Pair
from regard.text.grammar import Split
from regard.text.tokenizer import Tokenizer
from regard.training import ranks
from regard.training.prepare import Prepared
from regard.training.recipe import Recipe
from regard.training.start import Start, start_of
from regard.training.texts import BETWEEN, cleaned, labelled
from regard.training.tokenizers import tokenizer_of_texts
from regard.training.validate import TOKENS, Look, Verdict

PICTURES = 500
"""Images that are judged at once."""


@dataclass(frozen=True)
class Kind:
    """How texts with classes are read. units, names: what they and their classes are called. read: a split's pairs. texts:
    what a tokenizer learns from. classes: those of a pair. encode: pairs as ids. objective: made with the id of padding."""

    units: str
    names: str
    head: str
    read: Callable[[Recipe, Split], list[Pair]]
    texts: Callable[[Pair], Iterable[str]]
    classes: Callable[[Pair], Iterable[str]]
    encode: Callable[[Sequence[Pair], Tokenizer, list[str], int | None, str], TokenisedPairs]
    objective: Callable[[int], Objective]


def prepare(recipe: Recipe, cache: Path) -> Prepared:
    """Read texts and their classes. Texts longer than data.max_length are cut, in training only with on_long: cut."""
    its = Kind("texts", "classes", "class", labelled, lambda pair: pair.source.split(BETWEEN), _class, _encoded, Classes)
    return prepare_classes(recipe, cache, its)


def _class(pair: Pair) -> list[str]:
    return [pair.target]


def prepare_classes(recipe: Recipe, cache: Path, its: Kind) -> Prepared:
    """Read and tokenise what has classes. UserError without validation data, or for fewer than two classes."""
    train, report = cleaned(recipe, its.read(recipe, "train"))
    valid, test = its.read(recipe, "valid"), its.read(recipe, "test")
    if not valid:
        raise UserError(
            f"data.valid: no validation {its.units}; name a file of {its.units} with {its.names} that are not learned from"
        )
    start = start_of(recipe)
    texts = [text for pair in train for text in its.texts(pair)]
    tokenizers = tokenizer_of_texts(recipe, texts, cache) if start is None else start.tokenizers
    tokenizer = tokenizers.source
    labels = labels_of((name for pair in train for name in its.classes(pair)), recipe, start)
    longest = recipe.data.max_length
    short = longest if recipe.training.on_long == "cut" else None
    splits = [(train, short, "training data"), (valid, longest, "validation data"), (test, longest, "test data")]
    made = [its.encode(pairs, tokenizer, labels, most, name) if pairs else None for pairs, most, name in splits]
    learned, checked, tested = made
    assert learned is not None
    assert checked is not None
    return Prepared(
        train=learned,
        valid=checked,
        valid_pairs=[],
        test_pairs=[],
        tokenizers=tokenizers,
        report=report,
        name=recipe.data.name or str(recipe.data.train),
        notes=[*(report.lines() if report.kept < report.total else []), *cut_notes(made, longest)],
        test=tested,
        objective=its.objective(tokenizer.pad or 0),
        given={"head": its.head, "classes": len(labels)},
        labels=labels,
        start=start,
    )


def cut_notes(splits: Iterable[TokenisedPairs | None], longest: int) -> list[str]:
    """What is said of examples that lost their ends."""
    said = []
    for data in splits:
        if data is not None and data.cut:
            lines = ", ".join(map(str, data.cut[:10])) + (", …" if len(data.cut) > 10 else "")
            said.append(
                f"{data.name}: {len(data.cut)} of {len(data)} examples cut, longer than {longest} tokens: lines {lines}"
            )
    return said


def labels_of(found: Iterable[str], recipe: Recipe, start: Start | None) -> list[str]:
    """The classes of the training data, in order of numbers or letters; those of the folder where its head is kept and
    knows them all. UserError for fewer than two."""
    labels = set(found)
    if len(labels) < 2:
        raise UserError(f"data.train: {len(labels)} class in column {recipe.data.target}; at least two are needed")
    if start is not None and not recipe.model.fresh_head and labels <= set(start.labels):
        return start.labels
    try:
        return sorted(labels, key=int)
    except ValueError:
        return sorted(labels)


def _encoded(
    pairs: Sequence[Pair], tokenizer: Tokenizer, labels: list[str], longest: int | None, name: str
) -> TokenisedPairs:
    """Texts with their marks; target: the class, and the lengths of segments."""
    halves = [pair.source.split(BETWEEN) for pair in pairs]
    first = tokenizer.encode_batch([half[0] for half in halves])
    second = tokenizer.encode_batch([half[1] for half in halves]) if len(halves[0]) > 1 else [None] * len(first)
    numbers = {label: number for number, label in enumerate(labels)}
    sources, targets, cut = [], [], []
    for pair, one, two in zip(pairs, first, second):
        if pair.target not in numbers:
            raise UserError(f"{name}, line {pair.line}: the class {pair.target!r} is not in the training data")
        ids, segments = tokenizer.wrap(*shortened(one, two, tokenizer, longest))
        if len(ids) < len(one) + len(two or ()) + tokenizer.template.added(two is not None):
            cut.append(pair.line)
        sources.append(ids)
        targets.append([numbers[pair.target], *segment_counts(segments)])
    made = TokenisedPairs.from_ids(sources, targets, [pair.line for pair in pairs], name)
    made.cut = cut
    return made


def shortened(
    first: list[int], second: list[int] | None, tokenizer: Tokenizer, longest: int | None
) -> tuple[list[int], list[int] | None]:
    """The ids of one or two texts such that with their marks they are no longer than `longest`: the longer of the two loses
    its end first. None: as they are."""
    if longest is None:
        return first, second
    room = max(longest - tokenizer.template.added(second is not None), 0)
    if second is None:
        return first[:room], None
    small, large = sorted((len(first), len(second)))
    least = min(small, room // 2)
    most = min(large, room - least)
    return (first[:least], second[:most]) if len(first) <= len(second) else (first[:most], second[:least])


def answers(model: Model, recipe: Recipe, prepared: Prepared, data: Examples) -> tuple[float, dict[int, list[int]]]:
    """The mean loss of a model over data, and for each example the number of the likeliest class (of each token that has
    one)."""
    limit = Limits(recipe.data.max_length, None, "skip")
    budget = PICTURES if prepared.tokenizers is None else max(TOKENS, recipe.data.max_length)
    total, count, found = 0.0, 0, {}
    with torch.inference_mode():
        share = {"rank": ranks.rank(), "world": ranks.world()}
        for batch in ordered(data, budget, objective=prepared.watched, limits=limit, **share):
            batch = batch.to(model.device)
            assert batch.targets is not None
            logits: Any = model(batch.inputs, segments=batch.segments, layout=batch.layout).logits
            chosen = batch.targets != IGNORED
            rows, wanted = logits[chosen].float(), batch.targets[chosen]
            total += float(torch.nn.functional.cross_entropy(rows, wanted, reduction="sum").double())
            count += len(wanted)
            counts = chosen.reshape(len(batch.examples), -1).sum(1).tolist()
            found |= dict(zip(batch.examples, (part.tolist() for part in rows.argmax(-1).split(counts)), strict=True))
    total, counted = ranks.total([total, count])
    return total / max(counted, 1), {number: one for part in ranks.gather(found) for number, one in part.items()}


def right_answers(data: TokenisedPairs) -> list[int]:
    """The class of each example."""
    return [int(data.pair(number)[1][0]) for number in range(len(data))]


def look(model: Model, recipe: Recipe, prepared: Prepared) -> Look:
    """Loss, accuracy and macro F1 (0 to 1)."""
    loss, found = answers(model, recipe, prepared, prepared.valid)
    right = right_answers(prepared.valid)
    given = [found[number][0] for number in range(len(right))]
    return Look(loss, None, figures={"accuracy": accuracy(given, right), "f1": macro_f1(given, right)})


def test(model: Model, recipe: Recipe, prepared: Prepared) -> Verdict | None:
    """Accuracy and macro F1 in per cent, and the class that was found for each test example."""
    if prepared.test is None:
        return None
    _, found = answers(model, recipe, prepared, prepared.test)
    right = right_answers(prepared.test)
    given = [found[number][0] for number in range(len(right))]
    scores = {"accuracy": accuracy(given, right), "f1": macro_f1(given, right)}
    signature = f"examples:{len(right)}|classes:{len(prepared.labels)}"
    made = {name: {"value": round(100 * value, 3), "signature": signature} for name, value in scores.items()}
    return Verdict(made, [prepared.labels[number] for number in given])
