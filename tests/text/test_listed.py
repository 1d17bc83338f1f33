from __future__ import annotations

import pytest

from regard.errors import UserError
from regard.text.listed import listed_tokenizer
from regard.text.tokenizer import Tokenizer

ROLES = {"pad": "<blank>", "unk": "<unk>", "bos": "<s>", "eos": "</s>"}
MARKS = ["<blank>", "<s>", "</s>"]


def test_characters_are_divided_and_joined():
    tokenizer = listed_tokenizer([*MARKS, "a", "b", "\u200e", "\u0301", "<unk>"], ROLES)
    assert (tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.unk) == (0, 1, 2, 7)
    assert tokenizer.encode("ab\u0301 a\u200ez") == [3, 4, 6, 3, 5, 7]
    assert tokenizer.decode([1, 3, 4, 2]) == "ab"
    assert tokenizer.wrap([3, 4])[0] == [3, 4]
    assert tokenizer.vocab_size == 8


def test_tokens_come_and_go_with_spaces():
    tokenizer = listed_tokenizer(["<unk>", *MARKS, "good", "▁day", "."], ROLES)
    assert tokenizer.encode("good  ▁day . night") == [4, 5, 6, 0]
    assert tokenizer.decode([4, 5, 6, 3]) == "good ▁day ."


@pytest.mark.parametrize(("before", "after", "want"), [((), ("</s>",), [4, 2]), (("<s>",), ("</s>",), [1, 4, 2])])
def test_marks_around_a_text(tmp_path, before, after, want):
    tokenizer = listed_tokenizer([*MARKS, "<unk>", "good"], ROLES, before, after)
    assert tokenizer.wrap(tokenizer.encode("good"))[0] == want
    tokenizer.save(tmp_path)
    again = Tokenizer.open(tmp_path)
    assert again.wrap(again.encode("good"))[0] == want


def test_no_text_becomes_a_mark():
    tokenizer = listed_tokenizer([*MARKS, "<unk>", "good"], ROLES)
    assert tokenizer.encode("good </s> <blank>") == [4, 3, 3]


@pytest.mark.parametrize(
    ("tokens", "words"),
    [([*MARKS, "<unk>", "a", "a"], "listed twice in the vocabulary: 'a'"), ([*MARKS, "a"], "no unknown symbol")],
)
def test_lists_that_are_no_vocabulary(tokens, words):
    with pytest.raises(UserError, match=words):
        listed_tokenizer(tokens, ROLES)
