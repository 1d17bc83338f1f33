"""Further entries of a vocabulary: old ids stay, texts stay whole."""

from __future__ import annotations

import json

import pytest

from regard.errors import UserError
from regard.text.added import with_entries
from regard.text.tokenizer import Plan, Tokenizer, train_tokenizer

LINES = ["the quick brown fox jumps over the lazy dog , twice .", "a café costs 3 euros ; do n't pay more !"] * 8
OLD = ["the lazy fox", "a café !", "costs 3 euros .", ""]
NEW = [
    "a covid case",
    "covid",
    "covid, covid.",
    "(covid) and covid-19",
    "covids",
    "<2de> the fox",
    "<2de>the fox <2de>",
    "x<2de>y",
    "the covid  covid ",
    "über über-alles",
]


@pytest.fixture(scope="module", params=["unigram", "bpe", "characters", "bytes", "words"])
def own(request: pytest.FixtureRequest) -> Tokenizer:
    sizes = {"unigram": 330, "bpe": 300, "characters": 60, "bytes": 300, "words": 60}
    characters = " ".join(sorted({character for text in NEW for character in text}))
    lines = LINES if request.param == "words" else [*LINES, characters, characters]
    return train_tokenizer(lines, Plan(request.param, vocab_size=sizes[request.param]), extra=["<2fr>"])


def test_old_texts_have_their_old_ids_and_all_texts_come_back(own: Tokenizer, tmp_path) -> None:
    names = ["<2de>", "covid", "über"]
    new = with_entries(own, names)
    assert [new.backend.token_to_id(name) for name in names] == [own.vocab_size + n for n in range(len(names))]
    assert (new.vocab_size, new.pad, new.eos) == (own.vocab_size + len(names), own.pad, own.eos)
    for text in [*OLD, "<2fr> a café !"]:
        assert new.encode(text) == own.encode(text)
        assert new.decode(new.encode(text)) == own.decode(own.encode(text))
    used = {number for text in NEW for number in new.encode(text)}
    assert own.vocab_size in used
    for text in NEW:
        wanted = own.decode(own.encode(text))
        if "\ufffd" not in wanted and "<2de>" not in text:
            assert new.decode(new.encode(text)) == wanted
    new.save(tmp_path)
    again = Tokenizer.open(tmp_path)
    assert [again.encode(text) for text in NEW] == [new.encode(text) for text in NEW]
    assert again.hash == new.hash


def test_a_word_is_one_token_wherever_it_stands(own: Tokenizer) -> None:
    new = with_entries(own, ["covid"])
    for text in NEW[:3]:
        assert new.encode(text).count(own.vocab_size) == text.count("covid")
    assert own.vocab_size not in new.encode("xcovid")
    stream = new.stream()
    assert "".join(stream.push(one) for one in new.encode("the covid dog")) + stream.end() == "the covid dog"


def test_a_mark_and_the_space_after_it(own: Tokenizer) -> None:
    new = with_entries(own, ["<2de>"])
    ids = new.encode("<2de> the fox")
    assert ids[0] == own.vocab_size
    assert new.decode(ids[1:]).strip() == "the fox"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["gpt2", "llama", "t5", "roberta"])
def test_tokenizers_of_others(kind: str, foreign) -> None:
    old = Tokenizer.open(foreign(kind))
    if kind == "t5":
        with pytest.raises(UserError, match="'covid': this tokenizer would lose the spaces around it"):
            with_entries(old, ["<2de>", "covid"])
        assert old.vocab_size in with_entries(old, ["<2de>"]).encode("<2de> a test")
        return
    new = with_entries(old, ["covid", "<2de>"])
    for text in ["Hello world, this is a test.", "A café costs 3 euros"]:
        assert new.encode(text) == old.encode(text)
    for text in ["a covid test", "covid, test.", "covids"]:
        assert new.decode(new.encode(text)) == old.decode(old.encode(text))
        assert (old.vocab_size in new.encode(text)) == (text != "covids")


def test_what_cannot_be_added(own: Tokenizer) -> None:
    for name, message in (
        ("", "cannot be an entry"),
        ("two words", "cannot be an entry"),
        ("<2fr>", "'<2fr>' is an entry of this tokenizer already"),
        ("</s>", "already"),
        ("e\u0301t", "is no text as this tokenizer sees it"),
    ):
        with pytest.raises(UserError, match=message):
            with_entries(own, [name])
    with pytest.raises(UserError, match="given twice"):
        with_entries(own, ["<2xx>", "<2xx>"])


def test_ids_with_holes_are_not_filled_by_chance(tmp_path) -> None:
    """The library counts entries to find a free id: here it would give one that is taken."""
    train_tokenizer(["a b"] * 3, Plan("words", vocab_size=20)).save(tmp_path)
    file = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    file |= {
        "model": {"type": "WordLevel", "vocab": {"<unk>": 0, " a": 2, " b": 9}, "unk_token": "<unk>"},
        "added_tokens": [],
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(file), encoding="utf-8")
    with pytest.raises(UserError, match="ids have holes"):
        with_entries(Tokenizer.open(tmp_path), ["<2de>"])
