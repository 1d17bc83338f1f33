"""Tokens beside their text: nobody ever sees half a character or a vocabulary's spelling."""

from __future__ import annotations

from typing import Any

import pytest

import regard
from regard.inspection.sides import grouped, image_side, readable, shown, side_of_ids, side_of_text

NASTY = ["<s>", "</script>", '"><img src=x onerror=1>', "\u202eabc", "👨‍👩‍👧‍👦", "龘", "这是 ok", "γεια", "a  b\tc\nd", "é"]


@pytest.mark.parametrize("text", NASTY)
def test_texts_are_told_by_their_own_characters(made: Any, text: str) -> None:
    """S-INSP-01: what a token stands for is a piece of the text itself."""
    side, ids, _ = side_of_text(made("translate"), text)
    assert side.text == text
    assert [token.id for token in side.tokens] == ids
    assert side.tokens[-1].special
    assert (side.tokens[-1].start, side.tokens[-1].end) == (len(text), len(text))
    covered = {n for token in side.tokens for n in range(token.start, token.end)}
    assert all(n in covered or text[n].isspace() for n in range(len(text)))
    names = shown(side)
    assert not any("Ġ" in name or "▁" in name or "\ufffd" in name for name in names)


@pytest.mark.parametrize("text", NASTY)
def test_ids_are_told_by_the_text_they_spell(made: Any, text: str) -> None:
    its = made("translate")
    side = side_of_ids(its.tokenizer, [its.tokenizer.bos, *its.tokenizer.encode(text)])
    assert side.text == its.tokenizer.normalize(text)
    assert shown(side)[0] == its.tokenizer.piece(its.tokenizer.bos)
    assert "".join(side.text[t.start : t.end] for t in side.tokens if t.part is None or t.part[0] == 0) == side.text


def test_bytes_of_a_character_are_parts_of_it(made: Any) -> None:
    side, _, _ = side_of_text(made("translate"), "a龘")
    parts = [token for token in side.tokens if token.part is not None]
    assert [token.part for token in parts] == [(0, 3), (1, 3), (2, 3)]
    assert bytes.fromhex("".join(token.bytes for token in parts)).decode() == "龘"
    assert [name for name in shown(side) if name.startswith("龘")] == ["龘 1/3", "龘 2/3", "龘 3/3"]


def test_bytes_that_are_no_character_are_spelled(made: Any) -> None:
    tokenizer = made("translate").tokenizer
    ids = tokenizer.encode("龘")[-3:-1]
    side = side_of_ids(tokenizer, ids)
    assert side.text == "\\xe9\\xbe"
    assert [side.text[token.start : token.end] for token in side.tokens] == ["\\xe9", "\\xbe"]
    assert readable(tokenizer, ids[0]) == "\\xe9"
    assert readable(tokenizer, tokenizer.eos) == ""


def test_pairs_are_one_text_of_two_lines(foreign: Any) -> None:
    its = regard.load(foreign("bert", "BertForSequenceClassification", num_labels=2))
    side, ids, segments = side_of_text(its, "the quick fox", "lazy dog")
    assert side.text == "the quick fox\nlazy dog"
    assert (ids, segments) == its.frame(its.tokenizer.encode("the quick fox"), its.tokenizer.encode("lazy dog"))[0]
    words = [side.text[slice(*side.words[token.word])] for token in side.tokens if token.word >= 0]
    assert list(dict.fromkeys(words)) == ["the", "quick", "fox", "lazy", "dog"]


def test_what_was_cut_off_is_said(foreign: Any) -> None:
    its = regard.load(foreign("bert", "BertForSequenceClassification", num_labels=2))
    side, ids, _ = side_of_text(its, "fox " * 100)
    assert side.truncated
    assert len(ids) == 64
    assert not side_of_text(its, "fox")[0].truncated


def test_ranges_that_share_characters_are_grouped() -> None:
    places, parts = grouped([(0, 1), (1, 2), (1, 2), (2, 4), (3, 5), (5, 5), (5, 6)])
    assert places == [(0, 1), (1, 2), (1, 2), (2, 5), (2, 5), (5, 5), (5, 6)]
    assert parts == [None, (0, 2), (1, 2), (0, 2), (1, 2), None, None]


def test_words_are_characters_where_no_spaces_are(made: Any) -> None:
    side, _, _ = side_of_text(made("translate"), "这是 ok")
    assert [side.text[a:b] for a, b in side.words] == ["这", "是", "ok"]


def test_patches_are_named_by_their_places() -> None:
    assert shown(image_side(2, 2)) == ["image", "1,1", "1,2", "2,1", "2,2"]
