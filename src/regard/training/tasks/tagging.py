"""A class for each word: the first piece of a word is classified."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from regard.architecture import Model
from regard.batches.data import TokenisedPairs
from regard.batches.objectives_classes import Tags
from regard.errors import UserError
from regard.evaluation.classes import accuracy, macro_f1, span_f1
from regard.text.corpus import Pair
from regard.text.grammar import Split
from regard.text.tokenizer import Tokenizer
from regard.training.prepare import Prepared
from regard.training.recipe import Recipe
from regard.training.tasks.classification import Kind, answers, prepare_classes
from regard.training.texts import labelled
from regard.training.validate import Look, Verdict


def prepare(recipe: Recipe, cache: Path) -> Prepared:
    """Read sentences and their tags: words with spaces between, and as many tags."""
    its = Kind("sentences", "tags", "tokens", _tagged, lambda pair: [pair.source], _names, _encoded, Tags)
    return prepare_classes(recipe, cache, its)


def _names(pair: Pair) -> list[str]:
    return pair.target.split()


def _tagged(recipe: Recipe, split: Split) -> list[Pair]:
    pairs = labelled(recipe, split)
    for pair in pairs:
        words, tags = len(pair.source.split()), len(pair.target.split())
        if words != tags:
            raise UserError(f"data.{split}: line {pair.line} has {words} words and {tags} tags; give each word one")
    return pairs


def _encoded(
    pairs: Sequence[Pair], tokenizer: Tokenizer, labels: list[str], longest: int | None, name: str
) -> TokenisedPairs:
    """Sentences with their marks; target: for each token its class + 1, or 0."""
    numbers = {label: number for number, label in enumerate(labels)}
    sources, targets, cut = [], [], []
    for pair in pairs:
        ids, classes = pieces_of(pair, tokenizer, numbers, name)
        room = len(ids) if longest is None else max(longest - tokenizer.template.added(), 0)
        if len(ids) > room:
            cut.append(pair.line)
            ids, classes = ids[:room], classes[:room]
        before = len(tokenizer.template.before())
        whole = tokenizer.wrap(ids)[0]
        sources.append(whole)
        targets.append([0] * before + classes + [0] * (len(whole) - before - len(classes)))
    made = TokenisedPairs.from_ids(sources, targets, [pair.line for pair in pairs], name)
    made.cut = cut
    return made


def pieces_of(pair: Pair, tokenizer: Tokenizer, numbers: dict[str, int], name: str) -> tuple[list[int], list[int]]:
    """The ids of a sentence, and for each the class of its word + 1 if it is the word's first piece, else 0."""
    words = pair.source.split()
    ids: list[int] = []
    classes: list[int] = []
    for number, (tag, pieces) in enumerate(zip(pair.target.split(), _words(words, tokenizer))):
        if tag not in numbers:
            raise UserError(f"{name}, line {pair.line}: the tag {tag!r} of word {number + 1} is not in the training data")
        if not pieces:
            raise UserError(
                f"{name}, line {pair.line}: word {number + 1} is nothing to this tokenizer, so its tag has no place"
            )
        ids += pieces
        classes += [numbers[tag] + 1, *[0] * (len(pieces) - 1)][: len(pieces)]
    return ids, classes


def _words(words: list[str], tokenizer: Tokenizer) -> list[list[int]]:
    """The ids of each word as it stands in the sentence, the space before it included."""
    text = " ".join(words)
    found = tokenizer.tokens(text)
    starts: list[int] = []
    at = 0
    for word in words:
        starts.append(at)
        at += len(word) + 1
    pieces: list[list[int]] = [[] for _ in words]
    owner = 0
    for number, (_, end) in zip(found.ids, found.offsets):
        while owner + 1 < len(words) and end > starts[owner + 1]:
            owner += 1
        pieces[owner].append(number)
    return pieces


def _tags(data: TokenisedPairs) -> list[list[int]]:
    return [[int(tag) - 1 for tag in data.pair(number)[1] if tag > 0] for number in range(len(data))]


def _scores(given: list[list[int]], right: list[list[int]], labels: list[str]) -> dict[str, float]:
    """Accuracy a word, and F1 of spans where the tags are IOB, else over the classes."""
    flat = [tag for row in given for tag in row], [tag for row in right for tag in row]
    if all(label == "O" or label[:2] in ("B-", "I-") for label in labels):
        named = ([[labels[tag] for tag in row] for row in rows] for rows in (given, right))
        return {"accuracy": accuracy(*flat), "f1": span_f1(*named)}
    return {"accuracy": accuracy(*flat), "f1": macro_f1(*flat)}


def look(model: Model, recipe: Recipe, prepared: Prepared) -> Look:
    """Loss a word, accuracy and F1 (0 to 1)."""
    loss, found = answers(model, recipe, prepared, prepared.valid)
    right = _tags(prepared.valid)
    return Look(loss, None, figures=_scores([found[i] for i in range(len(right))], right, prepared.labels))


def test(model: Model, recipe: Recipe, prepared: Prepared) -> Verdict | None:
    """Accuracy and F1 in per cent, and the tags that were found for each test sentence."""
    if prepared.test is None:
        return None
    _, found = answers(model, recipe, prepared, prepared.test)
    right = _tags(prepared.test)
    given = [found[number] for number in range(len(right))]
    iob = all(label == "O" or label[:2] in ("B-", "I-") for label in prepared.labels)
    signature = f"words:{sum(map(len, right))}|f1:{'spans' if iob else 'macro'}"
    scores = _scores(given, right, prepared.labels)
    made = {name: {"value": round(100 * value, 3), "signature": signature} for name, value in scores.items()}
    return Verdict(made, [" ".join(prepared.labels[tag] for tag in row) for row in given])
