"""Sentences with those before them: their sources in front of the source, their translations in front of the translation.

Concatenation after Tiedemann & Scherrer 2017, with any number of sentences on both sides, for models that learned from such
examples (`data.context` of a recipe). What parts the sentences is not a symbol of its own, as there, but the mark that a
text begins with: every vocabulary has it, and no text can spell it. So the decoder reads the earlier translations in one
pass, the search begins after them with its usual start mark, and neither scores nor lengths nor phrases count them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from regard.decoding.options import Search
from regard.errors import UserError
from regard.text.kept import find, pattern, take_out
from regard.text.tokenizer import Tokenizers

Pairs = Sequence[tuple[str, str]]
"""Sentences of a document in their order, each with its translation."""


@dataclass
class Context:
    """The sentences that came last in a document, `count` at most, each with its translation. Whoever translates a document
    piece by piece gives the same Context each time."""

    count: int
    pairs: list[tuple[str, str]] = field(default_factory=list)

    def add(self, source: str, translation: str) -> None:
        """A further sentence of the document."""
        self.pairs = [*self.pairs, (source, translation)][-self.count :]


@dataclass(frozen=True)
class Trained:
    """What a model learned from. sentences: before each one, at most. tokens: of a side, sentences and marks together."""

    sentences: int
    tokens: int

    @classmethod
    def of(cls, meta: Mapping[str, Any], model: Any = None) -> Trained | None:
        """As a folder tells it, but no more tokens than a model has positions; None if it does not. UserError: it is
        broken."""
        told = meta.get("context")
        if told is None:
            return None
        values = [told.get(name) if isinstance(told, dict) else None for name in ("sentences", "tokens")]
        numbers = [value for value in values if type(value) is int and 0 < value <= 1 << 20]
        if len(numbers) < len(values):
            raise UserError("regard.json: context should say how many sentences and tokens, such as 2 and 256")
        limits = [] if model is None else [model.encoder.limit, model.decoder.limit]
        return cls(numbers[0], min([numbers[1], *(limit for limit in limits if limit is not None)]))


@dataclass(frozen=True)
class Before:
    """The ids that stand before those of a sentence. source: with a mark after each earlier sentence. target: likewise of
    their translations, behind the decoder's first start mark; its last start mark is that of the sentence itself."""

    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)

    def given(self, start: int) -> list[int]:
        """What the decoder reads before the search gives it the start mark; nothing if nothing stands before."""
        return [start, *self.target[:-1]] if self.target else []


def marks_between(tokenizers: Tokenizers, start: int) -> tuple[int, int]:
    """The ids that part sentences on either side. start: what the decoder starts with. UserError: there are none."""
    its = tokenizers.source
    between = its.eos if its.bos is None else its.bos
    if between is None or start == tokenizers.target.pad:
        raise UserError("context needs marks at which texts begin, to part sentences with, and this vocabulary has none")
    return between, start


UNTRAINED = "this model has not learned to read sentences before (data.context of its recipe): leave context away"


def thread_of(context: Any, meta: Mapping[str, Any]) -> Context | None:
    """The Context of a call that names a number of sentences or a Context; None for none, and for sentences that are given
    text by text. meta: of the model. UserError: it did not learn so, or not with so many."""
    if context is None or isinstance(context, (list, tuple)):
        return None
    thread = context if isinstance(context, Context) else Context(context)
    if type(thread.count) is not int or thread.count < 0:
        raise UserError(f"context is {thread.count!r}, should be how many sentences are read before each, 0 or more")
    trained = Trained.of(meta)
    if thread.count and trained is None:
        raise UserError(UNTRAINED)
    if trained is not None and thread.count > trained.sentences:
        raise UserError(f"context is {thread.count}; this model has learned with {trained.sentences} at most")
    return thread if thread.count else None


def before_of(
    given: Sequence[Pairs], own: Sequence[Sequence[int]], tokenizers: Tokenizers, start: int, trained: Trained | None
) -> list[Before]:
    """What stands before each text. own: the ids of its source. Earlier sentences than the model learned to read, or than
    fit beside the text, are left out. UserError: the model did not learn from such examples, or there is not one for each
    text."""
    if trained is None:
        raise UserError(UNTRAINED)
    if len(given) != len(own):
        raise UserError(f"context has {len(given)} entries for {len(own)} texts: give each text the sentences before it")
    kept = [list(pairs)[-trained.sentences :] for pairs in given]
    between = marks_between(tokenizers, start)
    sides = [
        tokenizer.encode_batch([pair[side] for pairs in kept for pair in pairs])
        for side, tokenizer in enumerate((tokenizers.source, tokenizers.target))
    ]
    found, at = [], 0
    for pairs, ids in zip(kept, own):
        part = [side[at : at + len(pairs)] for side in sides]
        at += len(pairs)
        room = trained.tokens - len(ids) - 1
        while part[0] and max(sum(map(len, side)) + len(side) for side in part) > room:
            part = [side[1:] for side in part]
        found.append(Before(*([n for one in side for n in (*one, mark)] for side, mark in zip(part, between))))
    return found


class Continued:
    """A model whose decoder has read `given` Int[R N] before a search begins: a row for each answer, N alike for all."""

    def __init__(self, model: Any, given: Tensor) -> None:
        self._model, self._given = model, given.to(model.device)
        limit = model.decoder.limit
        self.decoder = SimpleNamespace(limit=None if limit is None else limit - given.shape[1])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def start(self, memory: Any, room: int) -> Any:
        """A state that has read what is given, to read up to `room` further tokens through."""
        state = self._model.start(memory, room + self._given.shape[1])
        self._model.step(self._given, state)
        return state


def after_given(model: Any, given: Sequence[Sequence[int]], options: Search) -> Any:
    """The model with what its decoder reads before each of a batch's answers, all of one length; the model itself where that
    is nothing."""
    if not given or not given[0]:
        return model
    copies = {"sample": options.num_return, "beam": options.num_beam_groups}  # rows of a sentence when the search begins
    return Continued(model, torch.tensor(given).repeat_interleave(copies.get(options.method, 1), 0))


def in_order(translate: Callable[..., list[Any]], texts: Sequence[str], context: Context, **options: Any) -> list[Any]:
    """Translations of the sentences of documents, in order: each is made with those before it and their translations. A
    blank text ends a document; documents are translated side by side. translate: `Translator.translate`, which is asked for
    details. context: what the first text goes on from, and afterwards what stands before the next. options: its own."""
    progress, first = options.pop("progress", None), options.pop("first", 0)
    documents = _documents(texts)
    held = [Context(context.count) for _ in documents]
    if texts and texts[0].strip():
        held[0].pairs = list(context.pairs)
    blank = [number for number, text in enumerate(texts) if not text.strip()]
    found: dict[int, Any] = dict(zip(blank, translate([texts[n] for n in blank], details=True) if blank else []))
    for step in range(max(map(len, documents), default=0)):
        rows = [(document[step], its) for document, its in zip(documents, held) if step < len(document)]
        numbers = [number for number, _ in rows]
        more = _chosen(options, numbers, len(texts))
        more |= {"context": [its.pairs for _, its in rows], "first": first + len(found)}
        if progress is not None:
            more["progress"] = lambda row, text, numbers=numbers: progress(numbers[row], text)
        for (number, its), one in zip(rows, translate([texts[n] for n in numbers], details=True, **more)):
            found[number] = one
            its.add(_plain(texts[number], options.get("keep")), _plain(one.text, options.get("keep")))
    if texts:
        context.pairs = held[-1].pairs if texts[-1].strip() else []
    return [found[number] for number in range(len(texts))]


def _documents(texts: Sequence[str]) -> list[list[int]]:
    """The numbers of texts that are not blank, those next to each other together."""
    found: list[list[int]] = []
    for number, text in enumerate(texts):
        if text.strip():
            if number == 0 or not texts[number - 1].strip():
                found.append([])
            found[-1].append(number)
    return found


def _chosen(options: dict[str, Any], numbers: Sequence[int], count: int) -> dict[str, Any]:
    """The options for some of `count` texts: of those that are given text by text, theirs."""
    chosen = dict(options)
    for name in ("prefix", "require", "forbid"):
        given = options.get(name)
        if not isinstance(given, (list, tuple)) or len(given) != count:
            continue
        if name == "prefix" or any(isinstance(one, list) for one in given):
            chosen[name] = [given[number] for number in numbers]
    return chosen


def _plain(text: str, keep: Any) -> str:
    """A text without what is carried through unseen."""
    if not keep:
        return text
    return take_out(text, find(text, pattern((keep,) if isinstance(keep, str) else tuple(keep))))[0]
