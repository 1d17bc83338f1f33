"""What the learning of a vocabulary promises."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.text.tokenizer import Plan, train_tokenizer
from regard.text.vocabulary import train_backend

KINDS = ("unigram", "bpe", "words", "characters", "bytes")
LINES = ["many men like many things", "things like the men", "the thing is many-sided", "l'eau, d'eau, qu'eau"] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_lines_give_the_same_file_in_every_process(kind: str) -> None:
    program = (
        "import sys, json; from regard.text.tokenizer import Plan, train_tokenizer;"
        f"print(train_tokenizer(json.load(sys.stdin), Plan(kind={kind!r}, vocab_size=400)).hash)"
    )
    source = str(Path(__file__).parents[2] / "src")
    here = train_tokenizer(LINES, Plan(kind=kind, vocab_size=400)).hash  # type: ignore[arg-type]
    ended = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(LINES),
        text=True,
        capture_output=True,
        env={"PYTHONPATH": source},
        check=True,
    )
    assert ended.stdout.strip() == here
    assert train_tokenizer(list(LINES), Plan(kind=kind, vocab_size=400)).hash == here  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS)
def test_the_vocabulary_is_no_larger_than_asked_and_ids_have_no_gap(kind: str) -> None:
    for size in (310, 330, 8000):
        tokenizer = train_tokenizer(LINES, Plan(kind=kind, vocab_size=size), ["<2a>", "<2b>"])  # type: ignore[arg-type]
        assert tokenizer.vocab_size <= size
        ids = sorted(tokenizer.backend.get_vocab(with_added_tokens=True).values())
        assert ids == list(range(tokenizer.vocab_size))
        assert tokenizer.encode("<2a>") == [tokenizer.vocab_size - 2]


def test_small_vocabularies_of_words_and_characters_keep_the_most_frequent() -> None:
    words = train_tokenizer(["a a a b b c"], Plan(kind="words", vocab_size=7))
    assert words.vocab_size == 7
    assert words.decode(words.encode("a b c")) == "a b \ufffd"
    characters = train_tokenizer(["aaabbc"], Plan(kind="characters", vocab_size=6))
    assert characters.decode(characters.encode("abc")) == "ab\ufffd"


def test_unigram_learns_whole_words() -> None:
    """The library's trainer alone never takes a whole word as a candidate."""
    tokenizer = train_tokenizer(["many men like many things"] * 20, Plan(kind="unigram", vocab_size=320))
    pieces = [tokenizer.piece(number) for number in tokenizer.encode("many men like many things")]
    assert pieces == [" many", " men", " like", " many", " things"]
    assert not any("\x01" in name for name in tokenizer.backend.get_vocab())


def test_unigram_of_next_to_nothing() -> None:
    for lines in (["a"], ["a b c d e f g"], ["\x01"], ["日本語"]):
        tokenizer = train_tokenizer(lines, Plan(kind="unigram"))
        assert tokenizer.decode(tokenizer.encode(lines[0])) == lines[0]


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_elided_words_may_keep_their_apostrophe(kind: str) -> None:
    tokenizer = train_tokenizer(["l'eau et l'air"] * 20, Plan(kind=kind, vocab_size=330))  # type: ignore[arg-type]
    text = "l'eau et l'air"
    assert [text[a:b] for a, b in tokenizer.tokens(text).offsets] == ["l'", "eau", " et", " l'", "air"]


@pytest.mark.parametrize("kind", KINDS)
def test_lower_case_and_normalisation_stand_in_the_file(kind: str) -> None:
    plan = Plan(kind=kind, vocab_size=400, lowercase=True, normalization="nfkc")  # type: ignore[arg-type]
    tokenizer = train_tokenizer(LINES, plan)
    assert tokenizer.normalize("THE ﬁlm") == "the film"
    assert tokenizer.encode("MEN") == tokenizer.encode("men")
    stated = json.loads(tokenizer.backend.to_str())["normalizer"]["normalizers"]
    assert [step["type"] for step in stated][:2] == ["NFKC", "Lowercase"]


def test_dropout_never_stands_in_the_file() -> None:
    backend = train_backend(LINES, Plan(kind="bpe", vocab_size=300, dropout=0.5))
    assert json.loads(backend.to_str())["model"]["dropout"] is None


def test_bytes_has_260_symbols() -> None:
    assert train_tokenizer(LINES, Plan(kind="bytes", vocab_size=300)).vocab_size == 260


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"kind": "subwords"}, "tokenizer.kind='subwords' is not known; use one of unigram, bpe"),
        ({"normalization": "nfx"}, "tokenizer.normalization='nfx' is not known; use one of nfc"),
        ({"kind": "bpe", "dropout": 1.0}, "tokenizer.dropout=1.0 must be at least 0 and below 1"),
        ({"kind": "words", "dropout": 0.1}, "needs tokenizer.kind=bpe"),
        ({"vocab_size": 4}, "vocab_size=4 is too small"),
    ],
)
def test_a_wrong_plan_is_refused_in_words(plan: dict, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        Plan(**plan)


@pytest.mark.parametrize(
    ("kind", "least"), [("unigram", 301), ("bpe", 261), ("bytes", 261), ("words", 7), ("characters", 6)]
)
def test_too_small_a_vocabulary_names_the_least(kind: str, least: int) -> None:
    with pytest.raises(UserError, match=f"vocab_size={least - 1} is too small for {kind}: use at least {least}"):
        train_tokenizer(LINES, Plan(kind=kind, vocab_size=least - 1), ["<2a>"])  # type: ignore[arg-type]
    assert train_tokenizer(LINES, Plan(kind=kind, vocab_size=least), ["<2a>"]).vocab_size <= least  # type: ignore[arg-type]


def test_extra_symbols_that_cannot_be_are_refused() -> None:
    for extra in (["</s>"], [""], [" <a>"], ["<0x41>"], ["<a>", "<a>"]):
        with pytest.raises(UserError, match="extra symbol"):
            train_backend(LINES, Plan(kind="bytes"), extra)


def test_odd_extra_symbols_come_back() -> None:
    for kind in KINDS:
        for name in ("[2.*]", "§中§", "a b"):
            tokenizer = train_tokenizer(LINES, Plan(kind=kind, vocab_size=400), [name])  # type: ignore[arg-type]
            ids = tokenizer.encode(f"{name} many men")
            assert ids == [tokenizer.vocab_size - 1, *tokenizer.encode("many men")]
            assert tokenizer.decode(ids) == f"{name} many men"
            assert tokenizer.backend.decode(ids, skip_special_tokens=False) == f"{name} many men"
