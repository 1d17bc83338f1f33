"""Translations written by hand, one phenomenon of French each."""

from __future__ import annotations

import random

import pytest

from regard.text.grammar import english, french
from regard.text.grammar.english import Clause, Phrase, Pronoun

I, YOU, HE, SHE, WE, THEY = (Pronoun(word) for word in ("I", "you", "he", "she", "we", "they"))


def one(noun: str, determiner: str = "the", *adjectives: str) -> Phrase:
    return Phrase(noun, determiner, False, adjectives)


def many(noun: str, determiner: str = "the", *adjectives: str) -> Phrase:
    return Phrase(noun, determiner, True, adjectives)


CASES = [
    # Articles, elision, h aspiré
    (Clause(one("man"), "sleep"), "The man sleeps.", "L'homme dort."),
    (Clause(one("owl"), "sleep"), "The owl sleeps.", "Le hibou dort."),
    (Clause(many("owl"), "sleep"), "The owls sleep.", "Les hiboux dorment."),
    (Clause(I, "love", object=one("orange", "a")), "I love an orange.", "J'aime une orange."),
    # Gender and number of adjectives, their place
    (
        Clause(one("woman", "the", "small"), "see", object=one("car", "a", "red")),
        "The small woman sees a red car.",
        "La petite femme voit une voiture rouge.",
    ),
    (
        Clause(many("girl", "the", "happy"), "buy", "past", object=many("hat", "this", "white")),
        "The happy girls bought these white hats.",
        "Les filles heureuses ont acheté ces chapeaux blancs.",
    ),
    (
        Clause(one("horse", "a", "old", "black"), "run"),
        "An old black horse runs.",
        "Un vieux cheval noir court.",
    ),
    (Clause(HE, "see", object=one("bird", "a", "beautiful")), "He sees a beautiful bird.", "Il voit un bel oiseau."),
    (Clause(SHE, "take", object=one("umbrella", "this", "new")), "She takes this new umbrella.",
     "Elle prend ce nouveau parapluie."),
    (Clause(SHE, "buy", object=one("tree", "a", "new")), "She buys a new tree.", "Elle achète un nouvel arbre."),
    (Clause(SHE, "draw", object=one("tree", "this", "old")), "She draws this old tree.", "Elle dessine ce vieil arbre."),
    (Clause(SHE, "sell", object=many("key", "the", "brown")), "She sells the brown keys.", "Elle vend les clés marron."),
    # Determiners before vowels, plurals
    (Clause(WE, "see", object=one("tree", "this")), "We see this tree.", "Nous voyons cet arbre."),
    (Clause(WE, "eat", object=one("orange", "my")), "We eat my orange.", "Nous mangeons mon orange."),
    (Clause(WE, "eat", object=one("orange", "my", "good")), "We eat my good orange.", "Nous mangeons ma bonne orange."),
    (Clause(THEY, "lose", object=many("newspaper", "our")), "They lose our newspapers.", "Ils perdent nos journaux."),
    (Clause(THEY, "see", object=many("horse", "some")), "They see some horses.", "Ils voient des chevaux."),
    (Clause(THEY, "see", object=many("dog", "some", "small", "brown")), "They see some small brown dogs.",
     "Ils voient de petits chiens marron."),
    (Clause(THEY, "lose", object=Phrase("knife", "", True, ("new",), "two")), "They lose two new knives.",
     "Ils perdent deux nouveaux couteaux."),
    # Negation
    (Clause(one("king"), "work", negative=True), "The king does not work.", "Le roi ne travaille pas."),
    (Clause(many("actress"), "invite", negative=True, object=one("doctor", "a")), "The actresses do not invite a doctor.",
     "Les actrices n'invitent pas de médecin."),
    (Clause(YOU, "take", "past", True, object=many("egg", "any")), "You did not take any eggs.",
     "Vous n'avez pas pris d'œufs."),
    # Past with être and with avoir, agreement of participles
    (Clause(one("queen"), "arrive", "past", place=("at", "station"), time="yesterday"),
     "The queen arrived at the station yesterday.", "La reine est arrivée à la gare hier."),
    (Clause(many("sister", "my"), "leave", "past", True), "My sisters did not leave.", "Mes sœurs ne sont pas parties."),
    (Clause(I, "see", "past", object=SHE), "I saw her.", "Je l'ai vue."),
    (Clause(SHE, "follow", "past", True, object=THEY), "She did not follow them.", "Elle ne les a pas suivis."),
    (Clause(SHE, "love", object=HE), "She loves him.", "Elle l'aime."),
    (Clause(HE, "hear", "future", object=SHE), "He will hear her.", "Il l'entendra."),
    (Clause(HE, "call", object=SHE), "He calls her.", "Il l'appelle."),
    # Future
    (Clause(many("child"), "go", "future", place=("to", "market"), time="tomorrow"),
     "The children will go to the market tomorrow.", "Les enfants iront au marché demain."),
    (Clause(YOU, "send", "future", object=one("letter", "a"), recipient=one("actor")),
     "You will send a letter to the actor.", "Vous enverrez une lettre à l'acteur."),
    # Receivers
    (Clause(HE, "give", object=one("apple", "his"), recipient=many("child")), "He gives his apple to the children.",
     "Il donne sa pomme aux enfants."),
    (Clause(HE, "show", "past", object=one("hat", "her"), recipient=WE), "He showed her hat to us.",
     "Il nous a montré son chapeau."),
    (Clause(HE, "sell", negative=True, object=one("clock", "her"), recipient=THEY), "He does not sell her clock to them.",
     "Il ne leur vend pas son horloge."),
    # Places
    (Clause(one("cat"), "play", place=("near", "garden")), "The cat plays near the garden.",
     "Le chat joue près du jardin."),
    (Clause(one("cat"), "play", place=("near", "church")), "The cat plays near the church.",
     "Le chat joue près de l'église."),
    (Clause(one("cat"), "fall", "past", place=("near", "shops")), "The cat fell near the shops.",
     "Le chat est tombé près des magasins."),
    (Clause(one("mouse", "a"), "sleep", place=("under", "tree")), "A mouse sleeps under the tree.",
     "Une souris dort sous l'arbre."),
    # Questions
    (Clause(one("boy"), "write", question="yes", object=one("book", "a")), "Does the boy write a book?",
     "Est-ce que le garçon écrit un livre ?"),
    (Clause(SHE, "come", "past", question="yes", place=("to", "hotel")), "Did she come to the hotel?",
     "Est-ce qu'elle est venue à l'hôtel ?"),
    (Clause(SHE, "sing", question="where"), "Where does she sing?", "Où est-ce qu'elle chante ?"),
    (Clause(many("nurse"), "laugh", "past", True, "why"), "Why did the nurses not laugh?",
     "Pourquoi est-ce que les infirmières n'ont pas ri ?"),
    (Clause(None, "take", "past", question="who", object=one("lamp", "my")), "Who took my lamp?",
     "Qui a pris ma lampe ?"),
    (Clause(one("father", "our"), "bring", "future", question="what"), "What will our father bring?",
     "Qu'est-ce que notre père apportera ?"),
    # To be
    (Clause(many("pear", "this"), "be", adjective="green"), "These pears are green.",
     "Ces poires sont vertes."),
    (Clause(one("mother", "my"), "be", "past", True, adjective="French"), "My mother was not French.",
     "Ma mère n'était pas française."),
    (Clause(I, "be", adjective="sick"), "I am sick.", "Je suis malade."),
    (Clause(WE, "be", "future", question="yes", adjective="famous"), "Will we be famous?",
     "Est-ce que nous serons célèbres ?"),
]  # fmt: skip


@pytest.mark.parametrize(("clause", "source", "target"), CASES, ids=[source for _, source, _ in CASES])
def test_hand_written_translations(clause, source, target):
    assert english.say(clause) == source
    assert french.say(clause) == target


def test_sentences_whose_french_gender_english_hides_are_not_drawn():
    rng, seen = random.Random(1), set()
    for _ in range(4_000):
        clause = french.draw(rng)
        word = clause.subject.word if isinstance(clause.subject, Pronoun) else ""
        if word in ("I", "we", "you"):
            seen.add((clause.verb == "be", clause.tense))
            moves = clause.verb != "be" and french.VERBS[clause.verb].moves
            assert not (moves and clause.tense == "past")
            if clause.verb == "be":
                adjective = french.ADJECTIVES[clause.adjective]
                assert word != "you"
                assert adjective.masculine == adjective.feminine
    assert (True, "past") in seen
    assert (False, "past") in seen


def test_the_bound_counts_sentences_that_can_be_told_apart():
    """A past form is no word of a noun phrase, so it parts the two phrases that the count multiplies."""
    pasts = {word for verb in french.VERBS for word in english.past(verb).split()[:1]}
    assert not pasts & french.words()
    assert len({english.past(verb) for verb in french.VERBS}) == len(french.VERBS)
    assert french.bound() > 100_000


def test_phrases_are_one_string_for_one_choice():
    """What the bound takes for granted, by listing every phrase that it counts."""
    phrases = [
        Phrase(noun, determiner, determiner == "some", adjectives)
        for noun in french.NOUNS
        for adjectives in ((), *((name,) for name in sum(french._fitting(noun), ())))
        for determiner in french.DETERMINERS
        if determiner != "any" and (noun not in french.UNOWNED or determiner in ("the", "a", "this", "some"))
    ]
    assert len({english.phrase(phrase) for phrase in phrases}) == len(phrases)
    verbs = [verb for verb in french.VERBS.values() if not verb.gives]
    kinds = {noun: its.kinds[0] for noun, its in french.NOUNS.items()}
    persons = sum(kinds[phrase.noun] == "person" for phrase in phrases)
    assert french.bound() == persons * sum(kinds[phrase.noun] in verb.objects for verb in verbs for phrase in phrases)
