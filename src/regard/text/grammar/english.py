"""The meaning of a sentence as a value (Clause), and how it is said in English."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")
Tense = Literal["present", "progressive", "past", "future"]
Question = Literal["", "yes", "why", "where", "who", "what"]


@dataclass(frozen=True)
class Phrase:
    """A noun with what stands before it. determiner: "" before a bare number. number: a word such as "two", or ""."""

    noun: str
    determiner: str = "the"
    plural: bool = False
    adjectives: tuple[str, ...] = ()
    number: str = ""


@dataclass(frozen=True)
class Pronoun:
    """A pronoun, named by its subject form: I, you, he, she, we, they."""

    word: str


@dataclass(frozen=True)
class Clause:
    """One sentence. verb: its infinitive. question: "yes" for yes or no, or the word that asks ("who" asks for the
    subject, "what" for the object, which are None then). adjective: what a subject of "be" is. place: preposition, noun."""

    subject: Phrase | Pronoun | None
    verb: str
    tense: Tense = "present"
    negative: bool = False
    question: Question = ""
    object: Phrase | Pronoun | None = None
    recipient: Phrase | Pronoun | None = None
    adjective: str = ""
    place: tuple[str, str] | None = None
    time: str = ""


PLURALS = {"man": "men", "woman": "women", "child": "children", "mouse": "mice", "knife": "knives"}
OBJECTS = {"I": "me", "you": "you", "he": "him", "she": "her", "we": "us", "they": "them"}
PASTS = {
    "bring": "brought",
    "buy": "bought",
    "come": "came",
    "draw": "drew",
    "eat": "ate",
    "fall": "fell",
    "find": "found",
    "give": "gave",
    "go": "went",
    "hear": "heard",
    "hide": "hid",
    "leave": "left",
    "lend": "lent",
    "lose": "lost",
    "run": "ran",
    "see": "saw",
    "sell": "sold",
    "send": "sent",
    "sing": "sang",
    "sleep": "slept",
    "take": "took",
    "write": "wrote",
}
DOUBLED = {"run": "runn"}


def pick(rng: random.Random, choices: Sequence[T]) -> T:
    """One of the choices; built on `random()` alone, whose numbers Python promises to keep for a seed."""
    return choices[int(rng.random() * len(choices))]


def _is_vowel(letter: str) -> bool:
    return letter in "aeiou"


def _with_s(word: str) -> str:
    if word.endswith("y") and not _is_vowel(word[-2]):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "o")) else "s")


def plural(noun: str) -> str:
    """The plural of a noun."""
    return PLURALS.get(noun) or _with_s(noun)


def third(verb: str) -> str:
    """The form after he or she; of "look for" the first word changes."""
    first, _, rest = verb.partition(" ")
    return f"{_with_s(first)} {rest}".rstrip()


def past(verb: str) -> str:
    """The simple past."""
    first, _, rest = verb.partition(" ")
    if first in PASTS:
        form = PASTS[first]
    elif first.endswith("e"):
        form = first + "d"
    elif first.endswith("y") and not _is_vowel(first[-2]):
        form = first[:-1] + "ied"
    else:
        form = first + "ed"
    return f"{form} {rest}".rstrip()


def gerund(verb: str) -> str:
    """The form in -ing."""
    first, _, rest = verb.partition(" ")
    stem = DOUBLED.get(first) or (first[:-1] if first.endswith("e") and not first.endswith("ee") else first)
    return f"{stem}ing {rest}".rstrip()


def phrase(its: Phrase | Pronoun) -> str:
    """A noun phrase, or a pronoun as a subject."""
    if isinstance(its, Pronoun):
        return its.word
    determiner = {"this": "these", "that": "those"}.get(its.determiner, its.determiner) if its.plural else its.determiner
    words = [its.number, *its.adjectives, plural(its.noun) if its.plural else its.noun]
    following = " ".join(word for word in words if word)
    if determiner == "a" and _is_vowel(following[0]):
        determiner = "an"
    return f"{determiner} {following}".strip()


def _object(its: Phrase | Pronoun) -> str:
    return OBJECTS[its.word] if isinstance(its, Pronoun) else phrase(its)


def _be(subject: Phrase | Pronoun | None, tense: Tense) -> str:
    many = isinstance(subject, Phrase) and subject.plural
    if isinstance(subject, Pronoun):
        if subject.word == "I":
            return "was" if tense == "past" else "am"
        many = subject.word in ("you", "we", "they")
    return ("were" if many else "was") if tense == "past" else ("are" if many else "is")


def _verb(clause: Clause) -> tuple[str, str]:
    """Auxiliary (or "") and main verb, before negation and questions are made."""
    subject, verb, tense = clause.subject, clause.verb, clause.tense
    if tense == "future":
        return "will", verb
    if tense == "progressive":
        return _be(subject, tense), gerund(verb)
    if verb == "be":
        return _be(subject, tense), ""
    if clause.negative or clause.question not in ("", "who"):
        return ("did" if tense == "past" else "does" if _be(subject, tense) == "is" else "do"), verb
    if tense == "past":
        return "", past(verb)
    return "", third(verb) if _be(subject, tense) == "is" else verb


def say(clause: Clause) -> str:
    """The sentence in English."""
    auxiliary, verb = _verb(clause)
    subject = "who" if clause.subject is None else phrase(clause.subject)
    inverted = clause.question not in ("", "who")
    words = [clause.question] if clause.question in ("why", "where", "what") else []
    words += [auxiliary, subject] if inverted else [subject, auxiliary]
    words += ["not" if clause.negative else "", verb, clause.adjective]
    words += [_object(clause.object)] if clause.object else []
    words += ["to", _object(clause.recipient)] if clause.recipient else []
    words += [clause.place[0], "the", clause.place[1]] if clause.place else []
    text = " ".join(word for word in [*words, clause.time] if word)
    return text[0].upper() + text[1:] + ("?" if clause.question else ".")
