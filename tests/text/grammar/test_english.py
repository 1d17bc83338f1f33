"""English forms."""

from __future__ import annotations

import pytest

from regard.text.grammar import english
from regard.text.grammar.english import Phrase, Pronoun


@pytest.mark.parametrize(
    ("verb", "third", "past", "gerund"),
    [
        ("watch", "watches", "watched", "watching"),
        ("look for", "looks for", "looked for", "looking for"),
        ("cry", "cries", "cried", "crying"),
        ("play", "plays", "played", "playing"),
        ("go", "goes", "went", "going"),
        ("dance", "dances", "danced", "dancing"),
        ("run", "runs", "ran", "running"),
    ],
)
def test_forms_of_verbs(verb, third, past, gerund):
    assert (english.third(verb), english.past(verb), english.gerund(verb)) == (third, past, gerund)


@pytest.mark.parametrize(
    ("noun", "plural"),
    [("man", "men"), ("knife", "knives"), ("box", "boxes"), ("actress", "actresses"), ("boy", "boys"), ("key", "keys"),
     ("dictionary", "dictionaries"), ("mouse", "mice"), ("bus", "buses")],
)  # fmt: skip
def test_plurals(noun, plural):
    assert english.plural(noun) == plural


def test_phrases():
    assert english.phrase(Phrase("apple", "a")) == "an apple"
    assert english.phrase(Phrase("apple", "a", adjectives=("red",))) == "a red apple"
    assert english.phrase(Phrase("box", "this", True, ("old", "red"), "two")) == "these two old red boxes"
    assert english.phrase(Pronoun("we")) == "we"


def test_said_with_be_and_its_persons():
    said = [
        english.say(english.Clause(Pronoun(word), "be", tense, adjective="sad"))
        for word in ("I", "you", "she", "they")
        for tense in ("present", "past")
    ]
    assert said == [
        "I am sad.", "I was sad.", "You are sad.", "You were sad.",
        "She is sad.", "She was sad.", "They are sad.", "They were sad.",
    ]  # fmt: skip
