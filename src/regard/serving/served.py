"""A model under a name, and how each thing it can do is done for a batch of many people's texts at once."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from regard.checkpoints.folders import locate
from regard.decoding.context import Pairs, Trained
from regard.decoding.options import search_options
from regard.errors import UserError
from regard.loading import load
from regard.serving import insight
from regard.serving.generating import chats, write
from regard.serving.limits import Limits
from regard.serving.linking import Linked, linked

log = logging.getLogger("regard.serving")

VERBS = ("translate", "generate", "classify", "embed")
"""What a model may be able to do: the methods of what `regard.load` gives."""


class AbandonedError(Exception):
    """Nobody waits for any answer of the batch that is being worked on."""


class Desk(Protocol):
    """Where a batch's answers go, by their places in it."""

    def piece(self, place: int, text: str) -> None:
        """Further text of an answer is certain."""
        ...

    def answer(self, place: int, value: Any) -> None:
        """An answer is ready; it need not be the batch's last."""
        ...

    def gone(self, place: int) -> bool:
        """Whether nobody waits for this answer any more."""
        ...

    def more(self, used: int, least: int) -> list[Any]:
        """Payloads of further units of the same wish, which take the next places. used: tokens that are kept for those being
        worked on. least: tokens that a further one takes, however short it is."""
        ...


@dataclass(frozen=True)
class Wish:
    """What is asked for beside the text itself; units of equal wishes may share a batch. All values are hashable.

    options: search options by name. alone: each unit is a batch of its own.
    """

    verb: str
    options: tuple[tuple[str, Any], ...] = ()
    alone: bool = False

    def named(self) -> dict[str, Any]:
        """The options by name."""
        return dict(self.options)


@dataclass(frozen=True)
class Source:
    """A sentence to translate. prefix: how its translation begins. number: on which its samples depend. follow: tell what
    becomes certain. align: of how many answers, best first, it is told how their words looked at the source's. before: the
    sentences before it, each with its translation."""

    text: str
    prefix: str = ""
    number: int = 0
    follow: bool = False
    align: int = 0
    before: Pairs = ()


@dataclass(frozen=True)
class Translated:
    """A translation; with `align` how its words looked at the source's, and then the same of alternatives."""

    translation: Any
    linked: tuple[Linked, ...] | None = None


@dataclass
class Served:
    """One model. loaded: what `regard.load` gave. Its languages, where known, are codes such as "en"."""

    name: str
    loaded: Any
    source: str | None = None
    target: str | None = None
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self.source = self.source or self.loaded.meta.get("source")
        self.target = self.target or self.loaded.meta.get("target")
        self.verbs = tuple(verb for verb in VERBS if callable(getattr(self.loaded, verb, None)))
        if not self.verbs:
            raise UserError(f"{self.name}: this model can do none of {', '.join(VERBS)}, so it cannot be served")

    @property
    def tools(self) -> tuple[str, ...]:
        """What can be asked of it besides, see `insight`."""
        return insight.tools(self.loaded, self.verbs)

    @property
    def chats(self) -> bool:
        """Whether it answers conversations."""
        return "generate" in self.verbs and chats(self.loaded)

    @property
    def limit(self) -> int:
        """Most tokens that it reads at once."""
        return self.loaded.limit

    @property
    def context(self) -> int:
        """How many sentences before a sentence it learned to read."""
        trained = Trained.of(self.loaded.meta)
        return trained.sentences if trained else 0

    def wish(self, verb: str, limits: Limits, **named: Any) -> Wish:
        """A wish for this verb. named: search options, None for the model's own. UserError: one is wrong or too large."""
        given = {name: value for name, value in named.items() if value is not None}
        bounds = {
            "num_beams": limits.beams,
            "num_return": max(limits.beams, limits.alternatives + 1),
            "max_length": limits.new_tokens,
        }
        for name, most in bounds.items():
            value = given.get(name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most):
                raise UserError(f"{name} must be a whole number from 1 to {most:,}")
        search = search_options(getattr(self.loaded, "search", None), **given)
        # The samples of a translation are drawn by its place in the call, and beams of prompts are searched one by one.
        alone = search.sample if verb == "translate" else verb == "generate" and search.method == "beam"
        return Wish(verb, tuple(sorted(given.items())), alone)

    def sizes(self, verb: str, payloads: Sequence[Any]) -> list[int]:
        """Tokens that the model reads for each payload."""
        if verb == "generate":
            return [len(self.loaded.prompt_ids(payload.given())) for payload in payloads]
        texts = [payload if isinstance(payload, (str, tuple)) else payload.text for payload in payloads]
        return [len(ids) + 1 for ids in self.loaded.tokenizer.encode_batch(texts)]

    def fits(self, text: str) -> bool:
        """Whether the model reads all of a text."""
        return self.loaded.fits(text)

    def run(self, wish: Wish, payloads: Sequence[Any], desk: Desk) -> None:
        """Do a batch of one wish. Whatever it raises, answers that were given stay given."""
        _DO[wish.verb](self.loaded, wish, payloads, desk)


_LANGUAGES = re.compile(r"([a-z]{2,3})-([a-z]{2,3})\Z")


def open_models(
    specs: Sequence[str], device: str | None = None, dtype: str | None = None, engine: str = "regard"
) -> list[Served]:
    """The models of `FOLDER` (its name is the folder's) or `NAME=FOLDER`, each loaded once; `FOLDER+FOLDER` is an ensemble.
    Where a folder does not tell its languages, a name such as en-fr does. engine: see `Loaded.run_in`.
    UserError: see there and `regard.load`."""
    found, loaded = [], {}
    for spec in specs:
        name, _, told = spec.rpartition("=")
        folders = [told] if Path(told).exists() else told.split("+")
        paths = tuple(locate(folder).resolve() for folder in folders)
        if paths not in loaded:
            began = time.perf_counter()
            loaded[paths] = load(folders, device, dtype) if len(folders) > 1 else load(told, device, dtype)
            loaded[paths].run_in(engine)
            log.info("loaded %s in %.1f s", told, time.perf_counter() - began)
            if steps := loaded[paths].meta.get("preprocess"):
                log.warning(
                    "%s learned from text after %s: it is to be given such text, and gives such", told, ", ".join(steps)
                )
        served = Served(name or "+".join(path.name for path in paths), loaded[paths])
        languages = _LANGUAGES.match(served.name)
        if languages and not served.source and not served.target:
            served.source, served.target = languages.groups()
        found.append(served)
    return found


def _translate(loaded: Any, wish: Wish, payloads: Sequence[Source], desk: Desk) -> None:
    texts = [source.text for source in payloads]
    prefix, before = [source.prefix for source in payloads], [source.before for source in payloads]
    first = payloads[0].number

    def follow(number: int, text: str) -> None:
        if payloads[number - first].follow:
            desk.piece(number - first, text)

    found = loaded.translate(
        texts,
        details=True,
        prefix=prefix if any(prefix) else None,
        context=before if any(before) else None,
        batch_tokens=1 << 30,  # the batch is the engine's choice already
        first=first,
        progress=follow if any(source.follow for source in payloads) else None,
        **wish.named(),
    )
    for place, (answer, source) in enumerate(zip(found, payloads)):
        answers = (answer, *answer.alternatives)[: source.align]
        looked = tuple(linked(loaded, each) for each in answers) if source.align else None
        desk.answer(place, Translated(answer, looked))


def _classify(loaded: Any, wish: Wish, payloads: Sequence[Any], desk: Desk) -> None:
    for place, answer in enumerate(loaded.classify(payloads, details=True, batch_tokens=1 << 30)):
        desk.answer(place, answer)


def _embed(loaded: Any, wish: Wish, payloads: Sequence[str], desk: Desk) -> None:
    for place, row in enumerate(loaded.embed(payloads, batch_tokens=1 << 30)):
        desk.answer(place, row.tolist())


def _generate(loaded: Any, wish: Wish, payloads: Sequence[Any], desk: Desk) -> None:
    write(loaded, wish.named(), payloads, desk)


def _each(call: Callable[..., Any]) -> Callable[[Any, Wish, Sequence[Any], Desk], None]:
    """From what answers one payload to what answers a batch."""

    def do(loaded: Any, wish: Wish, payloads: Sequence[Any], desk: Desk) -> None:
        for place, payload in enumerate(payloads):
            if not desk.gone(place):
                desk.answer(place, call(loaded, payload, **wish.named()))

    return do


_DO: dict[str, Callable[[Any, Wish, Sequence[Any], Desk], None]] = {
    "translate": _translate,
    "generate": _generate,
    "classify": _classify,
    "embed": _embed,
    "words": _each(insight.candidates),
    "trace": _each(insight.trace),
    "change": _each(insight.change),
}
