"""Rules and tables of French forms."""

from __future__ import annotations

import pytest

from regard.text.grammar.french_words import ADJECTIVES, BE, HAVE, NOUNS, PLACES, VERBS, is_open, plural


@pytest.mark.parametrize(
    ("word", "many"),
    [("chat", "chats"), ("souris", "souris"), ("cheval", "chevaux"), ("oiseau", "oiseaux"), ("hibou", "hiboux"),
     ("bleu", "bleus"), ("vieux", "vieux"), ("gros", "gros"), ("beau", "beaux"), ("âne", "ânes")],
)  # fmt: skip
def test_plurals(word, many):
    assert plural(word) == many


def test_conjugations():
    assert VERBS["eat"].present == ("mange", "mange", "mangeons", "mangez", "mangent")
    assert VERBS["buy"].present == ("achète", "achète", "achetons", "achetez", "achètent")
    assert VERBS["call"].present == ("appelle", "appelle", "appelons", "appelez", "appellent")
    assert VERBS["wait for"].present == ("attends", "attend", "attendons", "attendez", "attendent")
    assert [VERBS[verb].future for verb in ("buy", "call", "sell", "see", "go")] == [
        "achèter",
        "appeller",
        "vendr",
        "verr",
        "ir",
    ]
    assert [VERBS[verb].participle for verb in ("buy", "call", "sell", "take")] == ["acheté", "appelé", "vendu", "pris"]
    assert (BE.present[4], HAVE.present[4]) == ("sont", "ont")


def test_adjectives_have_four_forms():
    forms = [ADJECTIVES["old"].form(feminine, many) for many in (False, True) for feminine in (False, True)]
    assert forms == ["vieux", "vieille", "vieux", "vieilles"]
    assert {ADJECTIVES["brown"].form(feminine, many) for many in (False, True) for feminine in (False, True)} == {"marron"}


def test_elision_is_before_vowels_and_mute_h():
    assert all(map(is_open, ("homme", "œuf", "âne", "échelle", "êtes", "horloge")))
    assert not any(map(is_open, ("hibou", "hiboux", "chat", "roi")))


def test_tables_fit_together():
    kinds = {kind for its in NOUNS.values() for kind in its.kinds}
    assert {kind for its in ADJECTIVES.values() for kind in its.kinds} <= kinds
    assert {kind for its in VERBS.values() for kind in its.objects} <= kinds
    goals = {word for _, _, prepositions in PLACES.values() for word in prepositions}
    assert {its.goes for its in VERBS.values()} - {""} <= goals
