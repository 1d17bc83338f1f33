"""What the page asks of a model beside its answers: the words that could stand in a place, traces, and answers without some
heads. Each is done by the model's own worker, one request at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from regard.errors import UserError
from regard.inspection import inspect
from regard.inspection.change import change_heads
from regard.inspection.reading import read
from regard.layout import Layout
from regard.serving.linking import words

LONGEST = 8
"""Most tokens of one word."""
METHODS = ("input_x_gradient", "integrated_gradients", "occlusion")
"""How it may be found out what each token was worth; the first takes one pass, the others many."""
WHOLE_BYTES = 64 << 20
"""Bytes of a long text's whole weights in a trace."""

Gates = tuple[tuple[str, tuple[tuple[int, float | None], ...]], ...]
"""Of each attention its heads and their factors; None: the head's mean output in place of it."""


@dataclass(frozen=True)
class Place:
    """A place in an answer: after `prefix` in a text's translation, or in what follows a prompt."""

    text: str
    prefix: str = ""


@dataclass(frozen=True)
class Candidate:
    """A word that could stand in a place. text: with the white space before it; probability: of all its tokens. end: the
    answer ends there."""

    text: str
    probability: float
    end: bool = False


@dataclass(frozen=True)
class Subject:
    """What is looked into. pair: a second text. target: the answer that is forced on the model; None: its own. methods: of
    METHODS. gates: heads that are scaled throughout."""

    text: str
    pair: str | None = None
    target: str | None = None
    methods: tuple[str, ...] = METHODS[:1]
    gates: Gates = ()

    @property
    def given(self) -> Any:
        """As `inspect` takes it."""
        return self.text if self.pair is None else (self.text, self.pair)


def tools(loaded: Any, verbs: Sequence[str]) -> tuple[str, ...]:
    """What can be asked of a model by these names, beside its verbs: all that reads text can be looked into."""
    if loaded._tokenizers is None:
        return ()
    return ("trace", "change", "words") if {"translate", "generate"} & set(verbs) else ("trace", "change")


@torch.inference_mode()
def candidates(loaded: Any, place: Place, count: int) -> list[Candidate]:
    """The `count` likeliest beginnings of the next word, each written on, greedily, to the end of that word.

    Two beginnings of one and the same word count as one. What a search would write may differ: it looks further ahead.
    """
    begun, state, logits, tokenizer, ends = _begun(loaded, place)
    never = {n for n in (tokenizer.pad, tokenizer.bos, tokenizer.mask, tokenizer.unk) if n is not None} - set(ends)
    logits[0, [*never, *range(tokenizer.vocab_size, logits.shape[1])]] = -torch.inf
    log, first = logits.log_softmax(1)[0].topk(min(count, logits.shape[1]))
    rows = [_Row(tokenizer.stream(begun), ends) for _ in first]
    for row, number, value in zip(rows, first.tolist(), log.tolist()):
        row.push(number, value)
    state.select(torch.zeros(len(rows), dtype=torch.long, device=logits.device))
    token = first[:, None]
    for _ in range(LONGEST - 1):
        if all(row.done for row in rows):
            break
        logits = loaded.model.step(token, state).float()
        logits[:, [*never, *range(tokenizer.vocab_size, logits.shape[1])]] = -torch.inf
        log, best = logits.log_softmax(1).max(1)
        for row, number, value in zip(rows, best.tolist(), log.tolist()):
            row.push(number, value)
        token = best[:, None]
    found: dict[tuple[str, bool], float] = {}
    for row in rows:
        key = row.word, row.ended
        found[key] = found.get(key, 0.0) + row.probability
    return sorted((Candidate(text, p, end) for (text, end), p in found.items()), key=lambda one: -one.probability)


def _begun(loaded: Any, place: Place) -> tuple[list[int], Any, torch.Tensor, Any, list[int]]:
    """The ids before the place, the state and logits Float[1 V] after them, the tokenizer that writes, its end marks."""
    model, device, prefix = loaded.model, loaded.model.device, place.prefix.rstrip(" ")
    if model.encoder is None:
        begun = loaded.prompt_ids(place.text + prefix)
        read, memory, tokenizer, ends = begun, None, loaded.tokenizer, loaded.ends
    else:
        (ids, _), _ = loaded.frame(loaded.tokenizer.encode(place.text))
        memory = model.encode(torch.tensor([ids], device=device), Layout.unpadded(len(ids), device=device))
        start, eos = loaded.marks()
        tokenizer, ends = loaded.tokenizers.target, [eos]
        begun = tokenizer.encode(prefix)
        read = [start, *begun]
    limit = model.decoder.limit
    if limit is not None and len(read) + LONGEST > limit:
        raise UserError(f"the answer has {len(begun)} tokens up to this place, the model has positions for {limit}")
    state = model.start(memory, len(read) + LONGEST)
    return begun, state, model.step(torch.tensor([read], device=device), state).float(), tokenizer, list(ends)


class _Row:
    """One word as it is written."""

    def __init__(self, stream: Any, ends: Sequence[int]) -> None:
        self.stream, self.ends = stream, ends
        self.text, self.log, self.done, self.ended = "", 0.0, False, False

    def push(self, number: int, log: float) -> None:
        """Take a token, unless another word has begun already."""
        if self.done:
            return
        if number in self.ends:
            self.done, self.ended = True, not self.text
            self.log += log if self.ended else 0.0
            return
        before = self.text
        self.text += self.stream.push(number)
        spans = words(self.text)
        self.done = len(spans) > 1
        if not self.done or spans[0][1] > len(before):  # the token belongs to the word, at least in part
            self.log += log

    @property
    def word(self) -> str:
        """The first word, with the white space before it."""
        spans = words(self.text)
        return self.text[: spans[0][1]] if spans else self.text

    @property
    def probability(self) -> float:
        """Of all its tokens."""
        return float(torch.tensor(self.log).exp())


def trace(loaded: Any, subject: Subject) -> Any:
    """A Trace of a text, of a long one with as many whole heads as there is room for: its reader can fetch each alone."""
    return inspect(loaded, subject.given, subject.target, methods=subject.methods, full=WHOLE_BYTES)


def _read(loaded: Any, subject: Subject) -> None:
    """One pass over what is looked into and its answer."""
    read(loaded, subject.given, subject.target).answer(loaded.model)


def _named(heads: Mapping[int, float | None]) -> str:
    return "+".join(f"{head} (mean)" if factor is None else str(head) for head, factor in heads.items())


def change(loaded: Any, subject: Subject) -> dict[str, Any]:
    """What a model says with heads scaled, and what that does to the log-probability of the answer it gave without: as the
    entry of a trace's `changes`."""
    gates = {name: dict(heads) for name, heads in subject.gates}
    found = inspect(loaded, subject.given, subject.target, methods=(), gates=gates).changes[0].model_dump()
    with change_heads(loaded.model, gates, lambda: _read(loaded, subject)):
        if hasattr(loaded, "translate"):
            found["text"] = loaded.translate([subject.text])[0]
        elif hasattr(loaded, "classify") and not loaded.of_tokens:
            found["text"] = loaded.classify([subject.given])[0]
    found["name"] = ", ".join(f"{name}: {_named(heads)}" for name, heads in gates.items())
    return found
