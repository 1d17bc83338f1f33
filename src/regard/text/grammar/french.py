"""English to French: which sentences there are, and how each is said in French.

Conventions that make the translation one: you is vous, they is ils, the past is the passé composé (the imparfait for
"be"), questions begin with est-ce que, a question mark has a space before it. Where English hides a gender that French
would show ("I am happy", "we arrived"), the sentence is not made.
"""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

from regard.text.grammar import english
from regard.text.grammar.english import Clause, Phrase, Pronoun, Question, Tense, pick
from regard.text.grammar.french_words import (
    ADJECTIVES,
    BE,
    DETERMINERS,
    HAVE,
    NOUNS,
    NUMBERS,
    PLACES,
    PREPOSITIONS,
    TIMES,
    UNOWNED,
    VERBS,
    WAS,
    WILL,
    Verb,
    is_open,
)

SUBJECTS = {"I": "je", "you": "vous", "he": "il", "she": "elle", "we": "nous", "they": "ils"}
CLITICS = {"he": "le", "she": "la", "they": "les"}
DATIVES = {"I": "me", "you": "vous", "he": "lui", "she": "lui", "we": "nous", "they": "leur"}
COLUMNS = {"I": 0, "he": 1, "she": 1, "we": 2, "you": 3, "they": 4}
ASKS = {
    "yes": ["est-ce", "que"],
    "why": ["pourquoi", "est-ce", "que"],
    "where": ["où", "est-ce", "que"],
    "what": ["qu'est-ce", "que"],
    "who": ["qui"],
}
OFTEN = (*VERBS, "go", "go", "come", "return")
"""Verbs as often as they are drawn: going to places needs à, au, aux, and aller is like no other verb."""
ELIDED = {"le", "la", "je", "ne", "de", "que", "me"}


def _agreement(its: Phrase | Pronoun | None) -> tuple[bool, bool]:
    """Feminine, plural."""
    if isinstance(its, Phrase):
        return NOUNS[its.noun].feminine, its.plural
    return its is not None and its.word == "she", its is not None and its.word in ("we", "they")


def phrase(its: Phrase, negated: bool = False) -> list[str]:
    """The words of a noun phrase, not yet elided; `negated`: the object of a negated verb (un, des become de)."""
    noun, many = NOUNS[its.noun], its.plural
    words: list[str] = [noun.plural if many else noun.singular]
    front: list[str] = []
    for name in its.adjectives:
        adjective = ADJECTIVES[name]
        (front if adjective.before else words).append(adjective.form(noun.feminine, many))
    if front and not noun.feminine and not many and is_open(words[0]):
        front = [ADJECTIVES[name].liaison or form for name, form in zip(its.adjectives, front)]
    words = [*([NUMBERS[its.number]] if its.number else []), *front, *words]
    if not its.determiner:
        return words
    determiner = DETERMINERS[its.determiner][2 if many else int(noun.feminine)]
    if (negated and its.determiner in ("a", "any")) or (front and its.determiner == "some"):
        determiner = "de"
    elif not many and is_open(words[0]):
        determiner = {"ce": "cet", "ma": "mon", "sa": "son"}.get(determiner, determiner)
    return [determiner, *words]


def _verbs(clause: Clause) -> tuple[str, str]:
    """The conjugated verb, and the past participle or ""."""
    subject = clause.subject
    if isinstance(subject, Pronoun):
        column = COLUMNS[subject.word]
    else:
        column = 4 if subject is not None and subject.plural else 1
    if clause.verb == "be" and clause.tense == "past":
        return WAS[column], ""
    verb = BE if clause.verb == "be" else VERBS[clause.verb]
    if clause.tense == "present":
        return verb.present[column], ""
    if clause.tense == "future":
        return verb.future + WILL[column], ""
    feminine, many = _agreement(subject) if verb.moves else (False, False)
    if isinstance(clause.object, Pronoun):
        feminine, many = _agreement(clause.object)
    ending = ("e" if feminine else "") + ("s" if many and not verb.participle.endswith("s") else "")
    if verb.participle.endswith("s") and feminine:
        ending = "es" if many else "e"
    return (BE if verb.moves else HAVE).present[column], verb.participle + ending


def _join(words: list[str]) -> str:
    """The words with elision (l'homme) and contraction (au, du), a capital and the mark left to the caller."""
    done: list[str] = []
    for word in reversed(words):
        following = done[-1] if done else ""
        if word in ELIDED and following and is_open(following):
            done[-1] = word[:-1] + "'" + following
        elif word in ("à", "de") and following in ("le", "les"):
            done[-1] = {"àle": "au", "àles": "aux", "dele": "du", "deles": "des"}[word + following]
        else:
            done.append(word)
    return " ".join(reversed(done))


def _place(preposition: str, name: str) -> list[str]:
    word, feminine, _ = PLACES[name]
    article = "les" if name.endswith("s") else "la" if feminine else "le"
    return [*PREPOSITIONS[preposition].split(), article, word]


def say(clause: Clause) -> str:
    """The sentence in French."""
    subject, negative = clause.subject, clause.negative
    words = list(ASKS.get(clause.question, []))
    if isinstance(subject, Pronoun):
        words.append(SUBJECTS[subject.word])
    elif subject is not None:
        words += phrase(subject)
    conjugated, participle = _verbs(clause)
    clitics = [CLITICS[clause.object.word]] if isinstance(clause.object, Pronoun) else []
    clitics += [DATIVES[clause.recipient.word]] if isinstance(clause.recipient, Pronoun) else []
    words += [*(["ne"] if negative else []), *clitics, conjugated, *(["pas"] if negative else [])]
    words += [participle] if participle else []
    words += [ADJECTIVES[clause.adjective].form(*_agreement(subject))] if clause.adjective else []
    words += phrase(clause.object, negative) if isinstance(clause.object, Phrase) else []
    words += ["à", *phrase(clause.recipient)] if isinstance(clause.recipient, Phrase) else []
    words += _place(*clause.place) if clause.place else []
    words += TIMES[clause.tense][clause.time].split()
    text = _join(words)
    return text[0].upper() + text[1:] + (" ?" if clause.question else ".")


# Drawing


@cache
def _nouns(kinds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name, its in NOUNS.items() if set(kinds) & set(its.kinds))


@cache
def _fitting(noun: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The adjectives of a noun: those that French puts before it, those after."""
    fit = [(name, its.before) for name, its in ADJECTIVES.items() if set(NOUNS[noun].kinds) & set(its.kinds)]
    return tuple(name for name, before in fit if before), tuple(name for name, before in fit if not before)


def _adjectives(rng: random.Random, noun: str) -> tuple[str, ...]:
    """None, one, or one that French puts before and one that it puts after the noun."""
    chance = rng.random()
    front, behind = _fitting(noun)
    if chance < 0.5:
        return ()
    return (pick(rng, front + behind),) if chance < 0.85 else (pick(rng, front), pick(rng, behind))


def _owners(noun: str) -> tuple[str, ...]:
    return ("the",) if noun in UNOWNED else ("my", "his", "her", "our")


def draw_phrase(rng: random.Random, kinds: tuple[str, ...], negated: bool = False) -> Phrase:
    """A noun phrase whose noun is of one of the kinds. negated: the object of a negated verb ("any" in place of "some")."""
    noun = pick(rng, _nouns(kinds))
    adjectives, owner = _adjectives(rng, noun), pick(rng, _owners(noun))
    if rng.random() < 0.35:
        if not negated and rng.random() < 0.25:
            return Phrase(noun, "", True, adjectives, pick(rng, tuple(NUMBERS)))
        determiner = pick(rng, ("the", "the", "this", "any" if negated else "some", owner))
        return Phrase(noun, determiner, True, adjectives)
    return Phrase(noun, pick(rng, ("the", "the", "the", "a", "a", "this", owner)), False, adjectives)


def _draw_subject(rng: random.Random, verb: Verb | None, shows_gender: bool) -> Phrase | Pronoun:
    if rng.random() < 0.5:
        return Pronoun(pick(rng, ("he", "she", "they") if shows_gender else tuple(SUBJECTS)))
    return draw_phrase(rng, ("person", "animal") if verb is None or verb.animals else ("person",))


def _draw_object(rng: random.Random, verb: Verb, negative: bool) -> Phrase | Pronoun:
    if "person" in verb.objects and rng.random() < 0.2:
        return Pronoun(pick(rng, tuple(CLITICS)))
    return draw_phrase(rng, verb.objects, negative)


def _draw_recipient(rng: random.Random, subject: Phrase | Pronoun | None) -> Phrase | Pronoun:
    if rng.random() < 0.35:
        first = ("I", "we")
        word = subject.word if isinstance(subject, Pronoun) else ""
        barred = first if word in first else (word,) if word == "you" else ()
        return Pronoun(pick(rng, [other for other in DATIVES if other not in barred]))
    return draw_phrase(rng, ("person",))


def _draw_be(rng: random.Random, tense: Tense, negative: bool) -> Clause:
    """A subject and what it is; I and we only with adjectives that are alike for men and women."""
    question: Question = "yes" if rng.random() < 0.25 else ""
    if rng.random() < 0.5:
        word = pick(rng, ("I", "he", "she", "we", "they"))
        fit = [name for name, its in ADJECTIVES.items() if "person" in its.kinds]
        if word in ("I", "we"):
            fit = [name for name in fit if ADJECTIVES[name].masculine == ADJECTIVES[name].feminine]
        time = pick(rng, tuple(time for time in TIMES[tense] if time != "every day")) if rng.random() < 0.4 else ""
        return Clause(Pronoun(word), "be", tense, negative, question, adjective=pick(rng, fit), time=time)
    adjective = pick(rng, tuple(ADJECTIVES))
    subject = draw_phrase(rng, ADJECTIVES[adjective].kinds)
    kept = tuple(name for name in subject.adjectives[:1] if name != adjective)
    return Clause(replace(subject, adjectives=kept), "be", tense, negative, question, adjective=adjective)


def draw(rng: random.Random) -> Clause:
    """A sentence by chance."""
    tense: Tense = pick(rng, ("present", "past", "future"))
    negative = rng.random() < 0.3
    if rng.random() < 0.14:
        return _draw_be(rng, tense, negative)
    name = pick(rng, OFTEN)
    verb = VERBS[name]
    asking = rng.random()
    question: Question = "" if asking < 0.6 else "yes" if asking < 0.85 else pick(rng, ("why", "where", "who", "what"))
    asks_what = {"thing", "food"} & set(verb.objects) and not verb.gives
    if (question == "what" and not asks_what) or (question == "where" and not verb.still):
        question = "why"
    negative = negative and question not in ("who", "what", "where")
    subject = None if question == "who" else _draw_subject(rng, verb, verb.moves and tense == "past")
    goal = _draw_place(rng, verb, question)
    return Clause(
        subject,
        name,
        tense,
        negative,
        question,
        _draw_object(rng, verb, negative) if verb.objects and question != "what" else None,
        _draw_recipient(rng, subject) if verb.gives and rng.random() < 0.8 else None,
        place=goal,
        time=pick(rng, tuple(TIMES[tense])) if rng.random() < 0.4 else "",
    )


def _draw_place(rng: random.Random, verb: Verb, question: str) -> tuple[str, str] | None:
    if verb.goes:
        return verb.goes, pick(rng, [name for name, its in PLACES.items() if verb.goes in its[2]])
    if not verb.still or question == "where" or rng.random() < 0.3:
        return None
    name = pick(rng, [name for name, its in PLACES.items() if set(its[2]) - {"to", "at"}])
    return pick(rng, [word for word in PLACES[name][2] if word not in ("to", "at")]), name


def bound() -> int:
    """Fewer distinct English sentences than there are: statements of a noun phrase, a verb in the past and a noun phrase.

    No English past form is a word of a noun phrase, so the verb parts the two phrases, and a phrase is one string for
    one choice of determiner, adjective and noun: the count is a product.
    """
    ends: dict[str, int] = dict.fromkeys(("person", "animal", "thing", "food"), 0)
    for name, its in NOUNS.items():
        determiners = 4 if name in UNOWNED else len(DETERMINERS) - 1  # the, a, this, some (of many), my …, but not any
        ends[its.kinds[0]] += (1 + len(sum(_fitting(name), ()))) * determiners
    objects = (sum(ends[kind] for kind in verb.objects if kind in ends) for verb in VERBS.values() if not verb.gives)
    return ends["person"] * sum(objects)


def words() -> set[str]:
    """Every English word that a noun phrase may have."""
    nouns = {form for noun in NOUNS for form in (noun, english.plural(noun))}
    return nouns | set(ADJECTIVES) | set(DETERMINERS) | set(NUMBERS) | {"an", "these"}
