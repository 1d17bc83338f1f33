"""What the dialects share: the engine, which model a request means, and whole texts through models that read sentences."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from regard.decoding.context import Pairs
from regard.documents import KEEP, DocumentJob, Split, TranslatedDocument
from regard.serving.engine import Engine
from regard.serving.languages import nearest
from regard.serving.refusals import RefusalError
from regard.serving.served import Served, Source, Wish
from regard.serving.waiting import Following, answers, aside, submit, told
from regard.text import sentences
from regard.text.sentences import Sentence


@dataclass
class Text:
    """The translation of a text: of each of its sentences, in order."""

    sentences: list[Sentence]
    answers: list[Any]

    @property
    def text(self) -> str:
        """The best translations, joined."""
        return sentences.join(self.sentences, [one.translation.text for one in self.answers])

    def alternatives(self, count: int) -> list[str]:
        """Further translations: the k-th joins the k-th alternatives of all sentences, the last one where a sentence has
        fewer. Those that say the same as one before are left out."""
        found: list[str] = [self.text]
        for rank in range(count):
            chosen = []
            for one in self.answers:
                ranked = [one.translation, *one.translation.alternatives]
                chosen.append(ranked[min(rank + 1, len(ranked) - 1)].text)
            found.append(sentences.join(self.sentences, chosen))
        return list(dict.fromkeys(found))[1:]

    @property
    def confidence(self) -> float:
        """From 0 to 1: the geometric mean of the probabilities of all tokens written. Not a probability of being right."""
        return confidence([log for one in self.answers for log in one.translation.token_log_probs])


def confidence(logs: Sequence[float]) -> float:
    """The geometric mean of probabilities whose logarithms these are; 1 of none."""
    return round(math.exp(sum(logs) / len(logs)), 6) if logs else 1.0


@dataclass(frozen=True)
class How:
    """How a text is treated. cut: "lines" (sentences end at marks and line ends), "marks", "no" (a text is one sentence).
    prefix: how the translation of the only sentence begins. align: of how many
    answers, best first, it is told how their words looked at the source's. before: sentences before the only one, each with
    its translation."""

    cut: str = "lines"
    prefix: str = ""
    align: int = 0
    before: Pairs = ()


@dataclass(frozen=True)
class Kind:
    """What documents are. format: a name of `regard.text.formats.FORMATS`. split, attributes: see `regard.documents`."""

    format: str
    split: Split = "sentences"
    attributes: bool = False


@dataclass
class Service:
    """An engine and how it is reached. keys: one of them is asked for. origins: of pages of other sites that may use it (*:
    all). hosts: names under which it may be reached beside this machine's own; None or *: any."""

    engine: Engine
    keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = ()
    characters: int = field(default=0, init=False)
    """Characters translated since the start."""

    def named(self, name: str | None, verb: str) -> Served:
        """The model of a name, or the only one that can do this. RefusalError 404 or 400 names those that can."""
        able = [served for served in self.engine.models.values() if verb in served.verbs]
        names = ", ".join(served.name for served in able) or "none"
        if name is None:
            if len(able) == 1:
                return able[0]
            raise RefusalError(400, f"name the model; those that {verb}: {names}", "model")
        found = self.engine.models.get(name)
        if found is None:
            raise RefusalError(404, f"there is no model of this name; those that {verb}: {names}", "model")
        if verb not in found.verbs:
            raise RefusalError(400, f"the model {found.name} cannot {verb}; those that can: {names}", "model")
        return found

    @property
    def translators(self) -> list[Served]:
        """The models that translate."""
        return [served for served in self.engine.models.values() if "translate" in served.verbs]

    def between(self, source: str | None, target: str, fields: tuple[str, str] = ("source", "target")) -> Served:
        """The translator from one language to another. source: None where the client leaves it to the server, which takes
        the only model into the target language and refuses to guess among several. RefusalError 400 names what there is."""
        pairs = [(served, served.source or "", served.target or "") for served in self.translators]
        shown = ", ".join(f"{a or '?'} to {b or '?'}" for _, a, b in pairs) or "none"
        to = nearest(target, [b for _, _, b in pairs if b])
        if to is None:
            raise RefusalError(400, f"{fields[1]}: no model translates into this language; there are: {shown}", fields[1])
        pairs = [pair for pair in pairs if pair[2] == to]
        if source is None:
            if len(pairs) == 1:
                return pairs[0][0]
            there = ", ".join(f"{a or '?'} to {b}" for _, a, b in pairs)
            raise RefusalError(400, f"{fields[0]}: languages are not detected; name one of: {there}", fields[0])
        of = nearest(source, [a for _, a, _ in pairs if a])
        if of is None:
            raise RefusalError(400, f"{fields[0]}: no model translates from this language; there are: {shown}", fields[0])
        return next(served for served, a, _ in pairs if a == of)

    def check_texts(self, texts: Sequence[str], name: str) -> None:
        """RefusalError 413 or 400: too many texts, or too long ones."""
        limits = self.engine.limits
        if len(texts) > limits.texts:
            raise RefusalError(413, f"{name}: {len(texts):,} texts in one request, at most {limits.texts:,} are taken", name)
        count = sum(map(len, texts))
        if count > limits.characters:
            raise RefusalError(
                413, f"{name}: {count:,} characters in one request, at most {limits.characters:,} are taken", name
            )
        if any("\ud800" <= letter <= "\udfff" for text in texts for letter in text):
            raise RefusalError(400, f"{name}: half a surrogate pair is not valid Unicode", name)

    async def translate(
        self, served: Served, texts: Sequence[str], wish: Wish, how: How | None = None, request: str = ""
    ) -> list[Text]:
        """Texts, sentence by sentence. request: its name in logs."""
        size = sum(map(len, texts))
        parts, sources = await aside(size, self._sources, served, texts, how or How(), False)
        found = await answers(await submit(self.engine, served.name, wish, sources, None, request, size))
        self.characters += size
        return self._joined(parts, found)

    async def documents(
        self, served: Served, texts: Sequence[str], wish: Wish, kind: Kind, request: str = ""
    ) -> list[TranslatedDocument]:
        """Documents, translated in place. UserError: a text is none of the format, or a library is missing."""
        size = sum(map(len, texts))
        jobs = await aside(size, self._jobs, served, texts, kind)
        sources = [Source(text, number=number) for number, text in enumerate(t for job in jobs for t in job.job.sources)]
        asked = replace(wish, options=(*wish.options, ("keep", KEEP)))
        found = iter(await answers(await submit(self.engine, served.name, asked, sources, None, request, size)))
        self.characters += size
        parts = [[one.translation for _, one in zip(job.job.sources, found)] for job in jobs]
        return await aside(size, lambda: [job.finish(part) for job, part in zip(jobs, parts)])

    def _jobs(self, served: Served, texts: Sequence[str], kind: Kind) -> list[DocumentJob]:
        how = (kind.format, kind.split, kind.attributes, served.source, served.fits)
        return [DocumentJob.of(text, *how) for text in texts]

    async def follow(
        self, served: Served, text: str, wish: Wish, how: How | None = None, request: str = ""
    ) -> tuple[list[Sentence], AsyncIterator[tuple[int, str, Any]]]:
        """One text, told as it becomes certain: its sentences, and an iterator over (sentence, further text, None) and, once
        a sentence is done, (sentence, rest of its text, answer)."""
        parts, sources = await aside(len(text), self._sources, served, [text], how or How(), True)
        following = Following()
        ticket = await submit(self.engine, served.name, wish, sources, following.listen, request, len(text))
        self.characters += len(text)
        return parts[0], told(following.events(ticket), lambda one: one.translation.text)

    def _sources(
        self, served: Served, texts: Sequence[str], how: How, follow: bool
    ) -> tuple[list[list[Sentence]], list[Source]]:
        if how.cut == "no":
            parts = [sentences.whole(text) for text in texts]
        else:
            parts = [sentences.split(text, served.source, how.cut == "lines", served.fits) for text in texts]
        cores = [each.core for part in parts for each in part]
        if how.prefix and len(cores) != 1:
            raise RefusalError(400, f"prefix: begins the translation of one sentence, this text has {len(cores)}", "prefix")
        if how.before:
            self._check_context(served, how, len(cores))
        return parts, [Source(core, how.prefix, number, follow, how.align, how.before) for number, core in enumerate(cores)]

    def _check_context(self, served: Served, how: How, count: int) -> None:
        if not served.context:
            raise RefusalError(400, f"context: the model {served.name} has not learned to read sentences before", "context")
        if getattr(served.loaded, "shortlist", None) is not None:
            raise RefusalError(400, "context: does not go with the shortlist that this model is served with", "context")
        if count != 1:
            raise RefusalError(400, f"context: stands before one sentence, this text has {count}", "context")
        if how.align:
            raise RefusalError(400, "context: does not go with alignment and attention: leave one of them away", "context")

    def _joined(self, parts: list[list[Sentence]], found: list[Any]) -> list[Text]:
        texts, place = [], 0
        for part in parts:
            texts.append(Text(part, found[place : place + len(part)]))
            place += len(part)
        return texts
