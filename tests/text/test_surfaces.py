"""What ids spell, and where words end."""

from __future__ import annotations

import pytest

from regard.text.surfaces import (
    OUTSIDE,
    SPACED,
    UNSPACED,
    Lexicon,
    first_kind,
    joined,
    kind,
    last_kind,
    occurs,
    opens,
    places,
)
from regard.text.tokenizer import Plan, train_tokenizer

LINES = ["Deux hommes jouent au football .", "l'homme (le chat) dort.", "两个男人在踢足球。"] * 9


@pytest.mark.parametrize(("plan", "size"), [("bpe", 320), ("unigram", 330), ("characters", 60), ("bytes", 260)])
def test_ways_to_write_a_phrase_spell_it(plan, size) -> None:
    lexicon = Lexicon(train_tokenizer(LINES, Plan(plan, vocab_size=size)))
    for phrase in ("hommes", "le chat", "dort."):
        marked, bare = lexicon.ways(phrase)
        assert lexicon.spelled(marked) == f" {phrase}".encode()
        assert lexicon.spelled(bare) == phrase.encode()
    assert lexicon.spelled(lexicon.ways("足球")[1]) == "足球".encode()


def test_what_a_vocabulary_of_words_cannot_spell() -> None:
    lexicon = Lexicon(train_tokenizer(LINES, Plan("words", vocab_size=60)))
    assert lexicon.ways("Xyzzy") == ([], [])
    assert not lexicon.inside
    marked, _ = lexicon.ways("hommes jouent")
    assert lexicon.spelled(marked) == b" hommes jouent"


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "t5"])
def test_tokenizers_of_others(foreign, family) -> None:
    from regard.text.tokenizer import Tokenizer

    lexicon = Lexicon(Tokenizer.open(foreign(family)))
    marked, _ = lexicon.ways("world")
    assert lexicon.spelled(marked) == b" world"


def test_finding_ids() -> None:
    lexicon = Lexicon(train_tokenizer(LINES, Plan("bpe", vocab_size=320)))
    assert sorted(lexicon.starting(b" h")) == [n for n, text in enumerate(lexicon.texts) if text.startswith(b" h")]
    assert sorted(lexicon.holding(b"om")) == [n for n, text in enumerate(lexicon.texts) if b"om" in text]
    assert lexicon.holding(b"m") == [n for n, text in enumerate(lexicon.texts) if b"m" in text]
    assert {lexicon.texts[n] for n in lexicon.exact(b"h")} == {b"h"}
    assert all(first_kind(lexicon.texts[n]) != SPACED for n in lexicon.outside)


def test_kinds_of_characters() -> None:
    assert [kind(c) for c in ("a", "é", "7", "_", "ि", "中", "か", "ก", " ", "'", "-", "")] == (
        [SPACED] * 5 + [UNSPACED] * 3 + [OUTSIDE] * 4
    )
    assert joined(SPACED, SPACED)
    assert not joined(SPACED, UNSPACED)
    assert (last_kind("chaté".encode()), last_kind("足".encode()), last_kind(b"a."), last_kind(b"")) == (1, 2, 0, 0)
    assert last_kind("é".encode()[:1]) == SPACED  # half a character belongs to a word
    assert first_kind("é".encode()[1:]) == SPACED
    assert [opens(text.encode()) for text in ("a ", "(", "«", "l'", "-", ",", ".", "a")] == [True] * 5 + [False] * 3


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("cat", "cats", []),
        ("cat", "the cat.", [4]),
        ("cat", "concat cat", [7]),
        ("homme", "l'homme", [2]),
        ("足球", "踢足球。", [1]),
        ("a b", "a b a b", [0, 4]),
        ("", "a", []),
        ("b.", "ab. b.c", [4]),
    ],
)
def test_whole_words_alone(phrase, text, found) -> None:
    assert places(phrase, text) == found
    assert occurs(phrase, text) == bool(found)


@pytest.mark.parametrize(("plan", "size"), [("bpe", 330), ("unigram", 340), ("characters", 60)])
def test_ids_that_a_text_may_begin_in(plan, size) -> None:
    """Those that end with a beginning of the text, or hold it, where a word may begin."""
    lexicon = Lexicon(train_tokenizer(LINES, Plan(plan, vocab_size=size)))
    for body in ("hommes", "m", "(le", "足球"):
        data = body.encode()
        near = lexicon.touching(data)
        needed = {
            n
            for n, text in enumerate(lexicon.texts)
            for at in range(len(text))
            if (data.startswith(text[at:]) or text.startswith(data, at))
            and (at == 0 or not joined(last_kind(text[:at]), first_kind(data)))
        }
        assert needed == near
        assert lexicon.touching(data) is near
