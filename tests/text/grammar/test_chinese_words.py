"""The tables of Chinese words fit together."""

from __future__ import annotations

from regard.text.grammar.chinese_words import ADJECTIVES, NOUNS, PLACES, PREPOSITIONS, VERBS


def test_tables_fit_together():
    kinds = {kind for its in NOUNS.values() for kind in its.kinds}
    assert {kind for its in ADJECTIVES.values() for kind in its.kinds} <= kinds
    assert {kind for its in VERBS.values() for kind in its.objects} <= kinds
    assert {word for _, prepositions in PLACES.values() for word in prepositions} == {*PREPOSITIONS, "to", "at"}


def test_words_are_chinese_and_measure_words_one_character():
    texts = [its.word for its in NOUNS.values()] + [its.word + its.tail for its in VERBS.values()]
    texts += [its.before + its.after for its in ADJECTIVES.values()] + [word for word, _ in PLACES.values()]
    assert all("\u4e00" <= c <= "\u9fff" for text in texts for c in text)
    assert all(len(its.measure) == 1 for its in NOUNS.values())
    assert len({its.measure for its in NOUNS.values()}) >= 15
