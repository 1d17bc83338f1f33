"""Long texts and documents through a translator that reads sentences: cut, translated, put together again, and checked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.errors import UserError
from regard.text import formats
from regard.text.formats.document import MARK, Document, cut, whole
from regard.text.kept import find, pattern, put_back, take_out
from regard.text.sentences import Sentence
from regard.text.sentences import split as split_text
from regard.text.sentences import whole as one_sentence
from regard.text.words import has_letters

Split = Literal["sentences", "no"]
KEEP = (MARK.pattern,)
"""What a translator must carry through in the sources of a job."""
FIRST_HIDDEN = 1000
"""The first number of marks that stand for what is kept, beyond those of any segment."""
LAYOUT = "layout"
"""The flag of a segment that was left as it was."""
LOOKS = 400
"""How often a document is read again to find translations that would change more of it than their own text."""


@dataclass
class Passage:
    """A line or segment and its translation. flags: of all its sentences; sentences: the Translation of each that was asked
    for. text: the source itself where a document would not have been the same document with the translation."""

    source: str
    text: str
    flags: list[str] = field(default_factory=list)
    sentences: list[Any] = field(default_factory=list)

    @property
    def truncated(self) -> bool:
        """Whether the source of a sentence lost its end."""
        return any(one.truncated for one in self.sentences)

    @property
    def unknown(self) -> int:
        """Tokens of its sentences that the vocabulary lacks."""
        return sum(one.unknown for one in self.sentences)

    @property
    def finished(self) -> bool:
        """Whether no sentence was cut by the length limit."""
        return all(one.finished for one in self.sentences)

    @property
    def unkept(self) -> list[str]:
        """Promises that a sentence does not keep."""
        return [phrase for one in self.sentences for phrase in one.unkept]

    def json(self, sentences: bool = True) -> dict[str, Any]:
        """The same as JSON types, with or without its sentences."""
        found: dict[str, Any] = {"source": self.source, "text": self.text, "flags": self.flags}
        return found | ({"sentences": [one.json() for one in self.sentences]} if sentences else {})


@dataclass
class TranslatedDocument:
    """text: the whole document. passages: what was translated in it, in order."""

    text: str
    passages: list[Passage]


@dataclass(frozen=True)
class Unit:
    """What is translated at once: marks and white space, a text, marks and white space."""

    before: str
    core: str
    after: str


@dataclass
class Job:
    """Texts cut into units. sources: what is to be translated, each text once; or if not `once` in order and as often as it
    stands there, with blank texts between documents. hidden: for each text what stands behind further marks in its units."""

    texts: list[str]
    units: list[list[Unit]]
    hidden: list[dict[str, str]]
    once: bool = True

    @classmethod
    def of(
        cls,
        texts: Sequence[str],
        split: Split = "sentences",
        language: str | None = None,
        fits: Callable[[str], bool] | None = None,
        keep: Sequence[str] = (),
        once: bool = True,
    ) -> Job:
        """split: "sentences", or "no" for texts that are one each. language: of the texts, such as "en". fits: whether the
        model reads all of a text. keep: kinds of `regard.text.kept.KINDS` or regular expressions, for what is carried
        through unseen. UserError if the library for splitting is not installed."""
        if split not in ("sentences", "no"):
            raise UserError(f"split is {split!r}, should be sentences or no")
        expression = pattern(keep) if keep else None
        pairs = [(text, {}) if expression is None else _hidden(text, expression) for text in texts]
        units = [_units(text, split, language, fits) for text, _ in pairs]
        return cls(list(texts), units, [hidden for _, hidden in pairs], once)

    @property
    def sources(self) -> list[str]:
        """Every text that has letters, once; or all in order, and a blank one for each blank text."""
        if self.once:
            return list(dict.fromkeys(unit.core for row in self.units for unit in row if _says(unit.core)))
        found = []
        for text, row in zip(self.texts, self.units):
            found += [unit.core for unit in row if _says(unit.core)] if text.strip() else [""]
        return found

    def passages(self, answers: Sequence[Any]) -> list[Passage]:
        """A passage for each text, from a Translation for each of `sources`."""
        found = []
        for text, row, hidden, its in zip(self.texts, self.units, self.hidden, self._given(answers)):
            asked = [one for one in its if one is not None]
            flags = list(dict.fromkeys(flag for one in asked for flag in one.flags))
            parts = [unit.before + _answer(unit, one) + unit.after for unit, one in zip(row, its)]
            found.append(Passage(text, _shown("".join(parts), hidden), flags, asked))
        return found

    def _given(self, answers: Sequence[Any]) -> list[list[Any]]:
        """The answer to each unit of each text, None to those that nobody was asked for."""
        if self.once:
            known = dict(zip(self.sources, answers, strict=True))
            return [[known.get(unit.core) if _says(unit.core) else None for unit in row] for row in self.units]
        found, left = [], iter(answers)
        for text, row in zip(self.texts, self.units):
            if not text.strip():
                next(left)
            found.append([next(left) if _says(unit.core) else None for unit in row])
        return found


def _hidden(text: str, expression: re.Pattern[str]) -> tuple[str, dict[str, str]]:
    """The text with marks of its own for what matches, and what they stand for."""
    hidden: dict[str, str] = {}
    parts: list[str] = []
    at, found = 0, find(text, expression)
    for number, part in enumerate(found, 1):
        mark = f"<x{FIRST_HIDDEN + len(found) - number}/>"
        hidden[mark] = part.text
        parts += [text[at : part.start], mark]
        at = part.end
    return "".join([*parts, text[at:]]), hidden


def _shown(text: str, hidden: dict[str, str]) -> str:
    return MARK.sub(lambda mark: hidden.get(mark[0], mark[0]), text)


def _says(text: str) -> bool:
    """Whether there is something to translate beside marks."""
    return has_letters(MARK.sub("", text))


def _answer(unit: Unit, answer: Any) -> str:
    """The translation of a unit; the source itself where it is empty or there is nothing to translate."""
    return unit.core if answer is None or not MARK.sub("", answer.text).strip() else answer.text


def _units(text: str, split: Split, language: str | None, fits: Callable[[str], bool] | None) -> list[Unit]:
    """The sentences of a text with neutral marks in it; marks at their edges stand outside."""
    parts = cut(text)
    plain = "".join(parts[::2])
    found = one_sentence(plain) if split == "no" else split_text(plain, language, True, fits)
    places: list[tuple[int, str]] = []
    at = 0
    for number in range(0, len(parts) - 1, 2):
        at += len(parts[number])
        places.append((at, parts[number + 1]))
    units, first = [], 0
    for number, sentence in enumerate(found):
        start, end = sentence.start - len(sentence.before), sentence.start + len(sentence.core + sentence.after)
        last = number == len(found) - 1
        inside = []
        while first < len(places):
            place, mark = places[first]
            if place > end - (not mark.startswith("</")) and not last:
                break
            inside.append((place - start, mark))
            first += 1
        units.append(_edged(_marked(sentence, inside)))
    return units or [Unit("".join(parts), "", "")]


def _marked(sentence: Sentence, inside: Sequence[tuple[int, str]]) -> str:
    """The text of a sentence with its marks in it again."""
    text, parts, at = sentence.before + sentence.core + sentence.after, [], 0
    for place, mark in inside:
        parts += [text[at:place], mark]
        at = place
    return "".join([*parts, text[at:]])


def _edged(text: str) -> Unit:
    """A text without the marks and white space around it, as far as these marks belong to no word in it."""
    parts = cut(text)
    left, right, marks = 0, len(parts) - 1, Counter(parts[1::2])
    while left < right:
        first, last = parts[left + 1], parts[right - 1]
        blank = [not part or part.isspace() for part in (parts[left], parts[right])]
        opening = last.replace("/", "")
        if blank[0] and not (first.startswith("<g") and marks[first.replace("<", "</")]):
            marks[first] -= 1
            left += 2
        elif blank[1] and not (last.startswith("</") and marks[opening]):
            marks[last] -= 1
            right -= 2
        elif all(blank) and opening == first:
            marks[first] -= 1
            marks[last] -= 1
            left, right = left + 2, right - 2
        else:
            break
    before, core, after = ("".join(some) for some in (parts[:left], parts[left : right + 1], parts[right + 1 :]))
    lead, last = len(core) - len(core.lstrip()), len(core.rstrip())
    if lead >= last:
        return Unit(before + core + after, "", "")
    return Unit(before + core[:lead], core[lead:last], core[last:] + after)


@dataclass
class DocumentJob:
    """A document cut into units, to be translated by whoever calls `finish` with the answers to `job.sources`, which a
    translator finds with `keep=KEEP`."""

    document: Document
    job: Job

    @classmethod
    def of(
        cls,
        text: str,
        format: str,
        split: Split = "sentences",
        attributes: bool = False,
        language: str | None = None,
        fits: Callable[[str], bool] | None = None,
        keep: Sequence[str] = (),
        once: bool = True,
    ) -> DocumentJob:
        """format: a name of `regard.text.formats.FORMATS`. attributes: of HTML, translate alt texts and titles too. The
        rest: see Job. UserError: no such format, or the text is none of it."""
        document = formats.read(format, text, attributes)
        keep = (*document.keep, *keep)
        return cls(document, Job.of([one.text for one in document.segments], split, language, fits, keep, once))

    def finish(self, answers: Sequence[Any]) -> TranslatedDocument:
        """The document with the answers to `job.sources`. Where the document would not be the same document with one, in
        all but its words, the source stands there and the passage is flagged."""
        passages = self.job.passages(answers)
        for one, passage in zip(self.document.segments, passages):
            if not whole(one, passage.text):
                passage.text = _placed_again(passage.source, passage.text)
                passage.flags.append("kept-guessed")
        for number in self._faulty(passages, list(range(len(passages))), iter(range(LOOKS))):
            passages[number].text = passages[number].source
            passages[number].flags.append(LAYOUT)
        return TranslatedDocument(self._write(passages), passages)

    def _write(self, passages: Sequence[Passage], numbers: Sequence[int] | None = None) -> str:
        """The document with the passages of these numbers (None: of all) that are not left as they were."""
        chosen = range(len(passages)) if numbers is None else numbers
        texts: list[str | None] = [None] * len(passages)
        for number in chosen:
            if LAYOUT not in passages[number].flags:
                texts[number] = passages[number].text
        return self.document.write(texts, [n for n, one in enumerate(passages) if one.flags and texts[n] is not None])

    def _faulty(self, passages: Sequence[Passage], numbers: list[int], looks: Iterator[int]) -> list[int]:
        """Those of these passages that change more of the document than their own text; found by halving, and where there
        are more than so many looks find, all that were not looked at."""
        if not numbers:
            return []
        if next(looks, None) is None:
            return numbers
        if not self.document.changed(self._write(passages, numbers)):
            return []
        if len(numbers) == 1:
            return numbers
        middle = len(numbers) // 2
        found = self._faulty(passages, numbers[:middle], looks) + self._faulty(passages, numbers[middle:], looks)
        return found or numbers


def _placed_again(source: str, text: str) -> str:
    """A translation that has lost or doubled marks, with all marks of the source at about the same places."""
    plain, outs = take_out(source, find(source, MARK))
    return put_back(plain, outs, MARK.sub("", text), [])


def translate_document(
    translator: Any,
    text: str,
    format: str = "text",
    *,
    split: Split = "sentences",
    attributes: bool = False,
    keep: str | Sequence[str] = (),
    **options: Any,
) -> TranslatedDocument:
    """A document translated in place. options: of `Translator.translate`; keep: besides what the format keeps. The rest: see
    DocumentJob. A translation that a catalogue (po) marks as doubtful is one with a flag, so its options look for all. With
    `context` sentences are translated in order, each with those before it."""
    more = [keep] if isinstance(keep, str) else keep
    language = translator.meta.get("source")
    how = (split, attributes, language, translator.fits, more, not options.get("context"))
    job = DocumentJob.of(text, formats.named(format), *how)
    if format == "po":
        options = {"confidence": True} | options
    sources = job.job.sources
    return job.finish(translator.translate(sources, details=True, keep=KEEP, **options) if sources else [])


def translate_long(translator: Any, texts: Sequence[str], *, split: Split = "sentences", **options: Any) -> list[Passage]:
    """Texts of any length, sentence by sentence, their white space kept. options: of `Translator.translate`."""
    job = Job.of(texts, split, translator.meta.get("source"), translator.fits, once=not options.get("context"))
    return job.passages(translator.translate(job.sources, details=True, **options) if job.sources else [])
