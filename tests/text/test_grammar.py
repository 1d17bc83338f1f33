"""The grammar as a source of data: a function, the same for a seed, with splits that share nothing."""

from __future__ import annotations

import random
import re

import pytest

from regard.errors import UserError
from regard.text import grammar
from regard.text.grammar import NAMES, english, sentences, size, split_of

PAIRS = sorted(NAMES)


@pytest.mark.parametrize("pair", PAIRS)
def test_each_english_sentence_has_one_translation(pair):
    """Not one sentence twice with two translations, and no two meanings said alike that are translated apart."""
    rng, found = random.Random(0), {}
    for _ in range(6_000):
        clause = NAMES[pair].draw(rng)
        source, target = english.say(clause), NAMES[pair].say(clause)
        assert found.setdefault(source, target) == target
    assert len(found) > 4_000


@pytest.mark.parametrize("pair", PAIRS)
def test_seeded(pair):
    first, again, other = sentences(pair, 300, 7), sentences(pair, 300, 7), sentences(pair, 300, 8)
    assert first == again
    assert first != other
    assert [its.line for its in first] == list(range(1, 301))
    assert sentences(f"grammar-{pair}", 300, 7) == first
    assert sentences(pair, 200, 7) == first[:200]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("split", ["valid", "test"])
def test_what_is_scored_is_distinct_and_what_is_learned_from_repeats_short_sentences(pair, split):
    scored, learned = sentences(pair, 400, 7, split), sentences(pair, 4_000, 7)
    assert len({its.source for its in scored}) == 400
    distinct = {its.source: its.target for its in learned}
    assert 3_000 < len(distinct) < 4_000
    assert all(distinct[its.source] == its.target for its in learned)


@pytest.mark.parametrize("pair", PAIRS)
def test_splits_share_no_sentence_whatever_the_seed(pair):
    splits = {split: {its.source for seed in (1, 2) for its in sentences(pair, 80, seed, split)} for split in grammar.SPLITS}
    assert not splits["train"] & splits["valid"]
    assert not splits["train"] & splits["test"]
    assert not splits["valid"] & splits["test"]
    assert all(split_of(source) == split for split, sources in splits.items() for source in sources)


def test_the_split_of_a_sentence_never_changes():
    """The hash is part of what a published score means."""
    assert [split_of(text) for text in ("The man sleeps.", "The bird runs.", "The woman works.")] == [
        "train",
        "valid",
        "test",
    ]


@pytest.mark.parametrize("pair", PAIRS)
def test_more_than_100_000_sentences(pair):
    assert size(pair) > 100_000


@pytest.mark.parametrize("pair", PAIRS)
def test_sentences_are_clean_text(pair):
    end = {"en-fr": (".", " ?"), "en-zh": ("。", "？")}[pair]
    for its in sentences(pair, 500, 3):
        assert re.fullmatch(r"[A-Z][A-Za-z]*( [A-Za-z]+)*[.?]", its.source)
        assert its.target.endswith(end[1] if its.source.endswith("?") else end[0])
        assert "  " not in its.target
        assert its.target[0].isupper() or pair == "en-zh"
        assert len(its.source.split()) <= 20


def test_french_is_elided_and_contracted_everywhere():
    for its in sentences("en-fr", 2_000, 4):
        assert not re.search(r"\b(le|la|je|ne|de|que|me) [aàâeéèêioœuy]", its.target, re.IGNORECASE), its
        assert not re.search(r"\b(à|de) les?\b", its.target), its
        assert not re.search(r"\b(beau|nouveau|vieux|ma|sa|ce) (?!aujourd)[aàâeéèêioœu]\w*[^sx ]\b", its.target), its


def test_every_word_of_the_tables_is_used():
    said = {word for its in sentences("en-fr", 3_000, 1) for word in re.findall(r"\w+", its.source.lower())}
    assert set(grammar.french.NOUNS) <= said
    assert {name.lower() for name in grammar.french.ADJECTIVES} <= said
    assert {verb.split()[0] for verb in grammar.french.VERBS} <= said


def test_mistakes_are_named():
    with pytest.raises(UserError, match=r"no grammar for 'en-de': there are en-fr, en-zh"):
        sentences("en-de", 1)
    with pytest.raises(UserError, match=r"no split 'dev'"):
        sentences("en-fr", 1, split="dev")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"it gives \d+ at most"):
        sentences("en-zh", size("en-zh"))
