"""English to Chinese: which sentences there are, and how each is said in Chinese.

Conventions that make the translation one: "the" is 那 with a measure word (plural 那些), "you" is 你, "they" is 他们; the
past is 了 and its denial 没, the future is 会, what is going on is 正在 and its denial 没在; time and place stand before
the verb.
"""

from __future__ import annotations

import random
from functools import cache

from regard.text.grammar import english
from regard.text.grammar.chinese_words import (
    ADJECTIVES,
    NOUNS,
    NUMBERS,
    OLD_ANIMAL,
    OWNERS,
    PLACES,
    PREPOSITIONS,
    PRONOUNS,
    TIMES,
    UNOWNED,
    VERBS,
    Verb,
)
from regard.text.grammar.english import Clause, Phrase, Pronoun, Question, Tense, pick


def _before(adjective: str, kinds: tuple[str, ...]) -> str:
    return OLD_ANIMAL if adjective == "old" and "animal" in kinds else ADJECTIVES[adjective].before


def phrase(its: Phrase | Pronoun, negated: bool = False) -> str:
    """A noun phrase; `negated`: the object of a negated verb, where "a" and "any" are not said."""
    if isinstance(its, Pronoun):
        return PRONOUNS[its.word]
    noun = NOUNS[its.noun]
    rest = "".join(_before(adjective, noun.kinds) for adjective in its.adjectives) + noun.word
    counted = NUMBERS[its.number] + noun.measure if its.number else ""
    determiner = its.determiner
    if determiner in OWNERS:
        return OWNERS[determiner] + counted + rest
    if determiner == "any" or (determiner == "a" and negated):
        return rest
    if determiner == "a":
        return "一" + noun.measure + rest
    if determiner == "some":
        return "一些" + rest
    pointer = {"the": "那", "this": "这", "": ""}[determiner]
    return pointer + (counted or ("些" if its.plural else noun.measure)) + rest


def _predicate(clause: Clause) -> str:
    """What a subject is: 很高兴, 不高兴, 会很高兴, 是红色的."""
    adjective = ADJECTIVES[clause.adjective]
    after = adjective.after
    if isinstance(clause.subject, Phrase) and clause.adjective == "old":
        after = OLD_ANIMAL if "animal" in NOUNS[clause.subject.noun].kinds else after
    no = "不" if clause.negative else ""
    if adjective.colour:
        return f"{no}是{after}的"
    if clause.tense == "future":
        return f"{no}会很{after}"
    return no + after if no or clause.question else "很" + after


def _where(clause: Clause) -> str:
    if clause.question == "where":
        return "在哪里"
    if clause.place is None or clause.place[0] not in PREPOSITIONS:
        return ""
    return "在" + PLACES[clause.place[1]][0] + PREPOSITIONS[clause.place[0]]


def _does(clause: Clause) -> str:
    """From the negation to the object."""
    verb, tense, negative = VERBS[clause.verb], clause.tense, clause.negative
    where = _where(clause)
    if tense == "progressive":
        front = ("没" if negative else "正") + (where or "在")
    else:
        front = {"present": "", "past": "", "future": "会"}[tense]
        front = ({"past": "没"}.get(tense, "不") if negative else "") + front + where
    action = verb.word + ("了" if tense == "past" and not negative else "") + verb.tail
    goal = PLACES[clause.place[1]][0] if clause.place and clause.place[0] in ("to", "at") else ""
    receiver = phrase(clause.recipient) if clause.recipient else ""
    thing = phrase(clause.object, negative) if clause.object else ""
    return front + action + goal + receiver + ("什么" if clause.question == "what" else thing)


def say(clause: Clause) -> str:
    """The sentence in Chinese."""
    subject = "谁" if clause.subject is None else phrase(clause.subject)
    why = "为什么" if clause.question == "why" else ""
    rest = _predicate(clause) if clause.verb == "be" else _does(clause)
    mark = {"": "。", "yes": "吗？"}.get(clause.question, "？")
    return subject + TIMES[clause.tense][clause.time] + why + rest + mark


# Drawing


@cache
def _nouns(kinds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name, its in NOUNS.items() if set(kinds) & set(its.kinds))


@cache
def _fitting(noun: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The adjectives that may stand before a noun: the colours, the others."""
    fit = [name for name, its in ADJECTIVES.items() if its.before and set(NOUNS[noun].kinds) & set(its.kinds)]
    return tuple(a for a in fit if ADJECTIVES[a].colour), tuple(a for a in fit if not ADJECTIVES[a].colour)


def _adjectives(rng: random.Random, noun: str) -> tuple[str, ...]:
    """None, one, or big or small with a colour."""
    chance = rng.random()
    colours, others = _fitting(noun)
    if chance < 0.55:
        return ()
    if chance < 0.9 or not colours:
        return (pick(rng, colours + others),)
    return (pick(rng, ("big", "small")), pick(rng, colours))


def _owners(noun: str) -> tuple[str, ...]:
    return ("the",) if noun in UNOWNED else tuple(OWNERS)


def draw_phrase(rng: random.Random, kinds: tuple[str, ...], known: bool = False, negated: bool = False) -> Phrase:
    """A noun phrase whose noun is of one of the kinds. known: one that the listener knows (the, this, my), as Chinese
    wants its subjects. negated: the object of a negated verb ("any" in place of "some")."""
    noun = pick(rng, _nouns(kinds))
    adjectives, owner = _adjectives(rng, noun), pick(rng, _owners(noun))
    if rng.random() < 0.35:
        if not negated and rng.random() < 0.4:
            determiner = pick(rng, ("the", "this", owner, *(() if known else ("", "", ""))))
            return Phrase(noun, determiner, True, adjectives, pick(rng, tuple(NUMBERS)))
        new = () if known else ("any",) if negated else ("some",)
        return Phrase(noun, pick(rng, ("the", "the", "this", owner, *new)), True, adjectives)
    new = () if known else ("a", "a")
    return Phrase(noun, pick(rng, ("the", "the", "this", owner, *new)), False, adjectives)


def _draw_subject(rng: random.Random) -> Phrase | Pronoun:
    if rng.random() < 0.45:
        return Pronoun(pick(rng, tuple(PRONOUNS)))
    return draw_phrase(rng, ("person",), known=True)


def _draw_other(rng: random.Random, subject: Phrase | Pronoun | None) -> Pronoun:
    """A pronoun that is not the subject's own person."""
    word = subject.word if isinstance(subject, Pronoun) else ""
    barred = {"I": ("I", "we"), "we": ("I", "we"), "you": ("you",)}.get(word, ())
    return Pronoun(pick(rng, [other for other in PRONOUNS if other not in barred]))


def _draw_be(rng: random.Random) -> Clause:
    """A subject and what it is; only moods have a time."""
    adjective = pick(rng, tuple(ADJECTIVES))
    its = ADJECTIVES[adjective]
    tense: Tense = pick(rng, ("present", "past", "future")) if its.states else "present"
    time = {"present": "", "past": "yesterday", "future": "tomorrow"}[tense]
    if "person" in its.kinds and rng.random() < 0.4:
        subject: Phrase | Pronoun = Pronoun(pick(rng, tuple(PRONOUNS)))
    else:
        subject = draw_phrase(rng, its.kinds, known=True)
        if subject.adjectives:
            subject = Phrase(subject.noun, subject.determiner, subject.plural, (), subject.number)
    question = "yes" if rng.random() < 0.25 else ""
    return Clause(subject, "be", tense, rng.random() < 0.3, question, adjective=adjective, time=time)


def _draw_question(rng: random.Random, verb: Verb, tense: Tense) -> Question:
    asking = rng.random()
    if asking < 0.6:
        return ""
    if asking < 0.8:
        return "yes"
    question: Question = pick(rng, ("why", "where", "who", "what"))
    if question == "where":
        return question if verb.still and tense in ("present", "future") else "why"
    if question == "what":
        return question if verb.objects and not verb.gives and {"thing", "food"} & set(verb.objects) else "why"
    return question


def draw(rng: random.Random) -> Clause:
    """A sentence by chance."""
    if rng.random() < 0.12:
        return _draw_be(rng)
    name = pick(rng, tuple(VERBS))
    verb = VERBS[name]
    tenses: tuple[Tense, ...] = ("present", "progressive", "past", "future")
    if verb.feels:
        tenses = ("present",)
    elif verb.reached:
        tenses = ("past", "future")
    elif verb.gives or verb.goes:
        tenses = ("present", "past", "future")
    tense = pick(rng, tenses)
    question = _draw_question(rng, verb, tense)
    negative = rng.random() < 0.3 and question in ("", "yes", "why")
    subject = None if question == "who" else _draw_subject(rng)
    thing: Phrase | Pronoun | None = None
    if verb.objects and question != "what":
        if "person" in verb.objects and rng.random() < 0.25:
            thing = _draw_other(rng, subject)
        else:
            thing = draw_phrase(rng, verb.objects, negated=negative)
    receiver: Phrase | Pronoun | None = None
    if verb.gives:
        receiver = _draw_other(rng, subject) if rng.random() < 0.5 else draw_phrase(rng, ("person",), known=True)
    place = _draw_place(rng, verb, question)
    time = pick(rng, tuple(TIMES[tense])) if not verb.feels and rng.random() < 0.5 else ""
    return Clause(subject, name, tense, negative, question, thing, receiver, place=place, time=time)


def _draw_place(rng: random.Random, verb: Verb, question: str) -> tuple[str, str] | None:
    if verb.goes:
        return verb.goes, pick(rng, [name for name, its in PLACES.items() if verb.goes in its[1]])
    if not verb.still or question == "where" or rng.random() < 0.4:
        return None
    name = pick(rng, [name for name, its in PLACES.items() if set(its[1]) & set(PREPOSITIONS)])
    return pick(rng, [word for word in PLACES[name][1] if word in PREPOSITIONS]), name


def bound() -> int:
    """Fewer distinct English sentences than there are: statements of a noun phrase, a verb in the past and a noun phrase.

    No English past form is a word of a noun phrase, so the verb parts the two phrases, and a phrase is one string for
    one choice of determiner, adjective and noun: the count is a product.
    """
    ends: dict[str, int] = dict.fromkeys(("person", "animal", "thing", "food"), 0)
    for name, its in NOUNS.items():
        determiners = 2 if name in UNOWNED else 2 + len(OWNERS)  # the, this, my …, each of one or of many
        ends[its.kinds[0]] += (1 + len(sum(_fitting(name), ()))) * 2 * determiners
    verbs = (verb for verb in VERBS.values() if not verb.gives and not verb.feels)
    return ends["person"] * sum(ends[kind] for verb in verbs for kind in verb.objects if kind in ends)


def words() -> set[str]:
    """Every English word that a noun phrase may have."""
    nouns = {form for noun in NOUNS for form in (noun, english.plural(noun))}
    return nouns | set(ADJECTIVES) | set(OWNERS) | set(NUMBERS) | {"the", "a", "an", "this", "these", "some", "any"}
