"""What is asked of translations, and whether texts keep it."""

from __future__ import annotations

import pytest

from regard.decoding.wishes import Wishes, lexicon_of
from regard.errors import UserError
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer

LINES = ["Deux hommes jouent au football .", "le chat {name} dort <b>ici</b> ."] * 9


def tokenizers(extra=()):
    made = train_tokenizer(LINES, Plan("bpe", vocab_size=330), extra)
    return Tokenizers(made, made, True)


PLAIN = tokenizers()


def test_wishes_among_other_options() -> None:
    wishes, others = Wishes.divided({"num_beams": 3, "forbid": ["a"], "keep": None, "glossary": {"a": "b"}})
    assert (wishes, others) == (Wishes(forbid=["a"], glossary={"a": "b"}), {"num_beams": 3})
    assert wishes
    assert not Wishes.divided({"num_beams": 3, "require": []})[0]
    assert lexicon_of(PLAIN.target) is lexicon_of(PLAIN.target)


def test_phrases_for_all_texts_or_for_each() -> None:
    texts = ["a cat", "a dog"]
    one, two = Wishes(require="chat|chaton", forbid=["b", ("c", "d")]).plans(texts, PLAIN)
    assert one.groups == two.groups == [("required", ("chat", "chaton"))]
    assert one.forbid == ["b", "c", "d"]
    assert one.rules is two.rules
    one, two = Wishes(require=[[("x", "y")], []]).plans(texts, PLAIN)
    assert (one.groups, two.groups, two.rules) == ([("required", ("x", "y"))], [], None)
    one, two = Wishes(glossary={"dog": "chien"}).plans(texts, PLAIN)
    assert (one.groups, two.groups) == ([], [("glossary", ("chien", "Chien"))])


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        ({"require": [["a"]]}, "require has 1 entries for 2 texts"),
        ({"require": ["a", ["b"]]}, "require has 2 entries for 2 texts: give a list for each text"),
        ({"forbid": [" | "]}, "forbid: a phrase is empty"),
        ({"require": [3]}, "require takes phrases, not 3"),
        ({"require": ["le chat"], "forbid": ["chat"]}, "'le chat' is required, and 'chat' forbidden: drop one"),
        ({"keep": ["("]}, "keep: "),
    ],
)
def test_wrong_wishes(wishes, message) -> None:
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        Wishes(**wishes).plans(["a", "b"], PLAIN)


def test_alternatives_that_are_forbidden_are_left_out() -> None:
    plan = Wishes(require="le chat|hommes", forbid="chat").plans(["a"], PLAIN)[0]
    assert [pattern.body for pattern in plan.rules.patterns] == [b"hommes", b"chat"]
    assert plan.broken("Deux hommes", PLAIN.target) == []
    assert plan.broken("le chat", PLAIN.target) == [("forbidden-present", "chat")]
    assert plan.broken("les chats", PLAIN.target) == [("required-missing", "le chat|hommes")]


def test_parts_that_are_kept() -> None:
    plan = Wishes(keep=["tags", "variables"]).plans(["the <b>cat</b> {name}"], PLAIN)[0]
    assert plan.text == "the cat {name}"
    assert plan.groups == [("kept", ("{name}",))]
    assert plan.broken("le <b>chat</b> {name} {name}", PLAIN.target) == [("kept-missing", "{name}")]
    assert plan.broken("le <b>chat {name}", PLAIN.target) == [("kept-missing", "</b>")]


def test_extra_symbols_stand_for_what_is_kept() -> None:
    made = tokenizers(["<ph1>", "<ph2>", "<ph3>"])
    plan = Wishes(keep=["tags", "variables"]).plans(["the <b>cat</b> {name}"], made)[0]
    assert plan.text == "the <ph1>cat<ph2> <ph3>"
    assert plan.symbols == {"<ph1>": "<b>", "<ph2>": "</b>", "<ph3>": "{name}"}
    assert [group for _, group in plan.groups] == [("<ph3>",), ("<ph2>",), ("<ph1>",)]
    many = Wishes(keep=["variables"]).plans(["{a} {b} {c} {d}"], made)[0]
    assert not many.symbols


def test_a_beginning_inside_a_word() -> None:
    plan = Wishes(complete=True).plans(["a"], PLAIN, ["Deux ho"])[0]
    assert plan.rules.opening == b" Deux ho"
    assert plan.whole_words("Deux ho") == "Deux"
    assert plan.broken("Deux chats", PLAIN.target) == [("prefix-missing", "Deux ho")]
    assert Wishes(require="x").plans(["a"], PLAIN, ["Deux ho"])[0].whole_words("Deux ho") == "Deux ho"
