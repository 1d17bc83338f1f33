"""Markdown."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.text.formats.markdown import read

PAGE = """---
title: not this
---

# Two *big* dogs #

See [the page](https://a.example/?q=1 "Title") and `code <b>`,
**bold *both* text** and ~~gone~~ \\*not this\\*
> quoted line
> that goes on, with{}
> a hard break

1. one &amp; two
2. - nested `x`
   - [ ] a task <b>here</b>

     a paragraph in it[^1]

Name | Value
-----|:----:
dog  | a \\| b
`c`  | **1**

```python
kept = "as it is"
```

    kept too

<div>
not this
</div>

![A dog](dog.png) [short] and [full][short] and <https://b.example>.

[short]: https://c.example "T"
[^1]: A note here.

Setext
title
======

你好，**世界**。
""".replace("{}", "  ")
TEXTS = [
    "Two <g1>big</g1> dogs",
    "See <g1>the page</g1> and <x2/>, <g3>bold <g4>both</g4> text</g3> and <g5>gone</g5> *not this*",
    "quoted line that goes on, with <x1/>a hard break",
    "one & two",
    "nested <x1/>",
    "<x1/> a task <g2>here</g2>",
    "a paragraph in it<x1/>",
    "Name",
    "Value",
    "dog",
    "a | b",
    "<x1/> <g2>short</g2> and <g3>full</g3> and <x4/>.",
    "<x1/> A note here.",
    "Setext title",
    "你好，<g1>世界</g1>。",
]


def test_what_is_translated() -> None:
    assert [one.text for one in read(PAGE).segments] == TEXTS


def test_a_page_comes_back_byte_for_byte() -> None:
    for page in (PAGE, PAGE.replace("\n", "\r\n"), PAGE.rstrip("\n")):
        document = read(page)
        assert document.write([None] * len(document.segments)) == page
        assert document.write([one.text for one in document.segments]) == page
        assert not document.changed(page)


def test_every_text_changed_and_the_rest_the_same() -> None:
    document = read(PAGE)
    made = document.write([text.replace("a ", "un ").replace("and", "et") + " ici" for text in TEXTS])
    assert not document.changed(made)
    assert [one.text for one in read(made).segments] == [
        text.replace("a ", "un ").replace("and", "et") + " ici" for text in TEXTS
    ]
    for kept in ("title: not this", "https://a.example/?q=1 \"Title\"", "`code <b>`", "```python\nkept = \"as it is\"\n```",
                 "    kept too", "<div>\nnot this\n</div>", "[^1]", "[ ]", "]: https://c.example"):  # fmt: skip
        assert kept in made


@pytest.mark.parametrize(
    ("source", "translation", "made"),
    [
        ("one", "# one", "\\# one"),
        ("one", "1. one", "1\\. one"),
        ("one", "- one", "\\- one"),
        ("one", "un * deux", "un * deux"),
        ("one", "un *deux*", "un \\*deux\\*"),
        ("one", "a_b `c` [d](e)", "a\\_b \\`c\\` \\[d\\](e)"),
        ("one", "<b> &amp; &", "\\<b> \\&amp; &"),
        ("one\ntwo", "un\ndeux", "un deux"),
        ("> one\n> two", "un deux", "> un deux"),
        ("a | b\n--|--\nc | d", "x|y", "x\\|y | b\n--|--\nc | d"),
        ("[short] way\n\n[short]: u", "voie <g1>courte</g1>", "voie [courte][short]\n\n[short]: u"),
    ],
)
def test_what_would_be_markup_is_escaped(source: str, translation: str, made: str) -> None:
    document = read(source)
    found = document.write([translation] + [None] * (len(document.segments) - 1))
    assert found == made
    assert not document.changed(found)


BITS = ["# ", "> ", "- ", "1. ", "\n", "\n\n", "    ", "*", "**", "`", "dog", " ", "[a](b)", "[a]", "[a]: b\n", "![i](j)",
        "<b>", "</b>", "|", "---", "\\", "  \n", "你好", "~~", "_", "&amp;", "&", "cat.", "\t", "\r\n", "```\n", "[ ] ",
        "<x1/>"]  # fmt: skip


@given(st.lists(st.sampled_from(BITS), max_size=14))
@example(["a | b\n--|--\n", "x|", "`c\\|d`"])
@settings(max_examples=400, deadline=None)
def test_any_page_comes_back(bits: list[str]) -> None:
    page = "".join(bits)
    document = read(page)
    translations: list[Any] = [one.text for one in document.segments]
    assert document.write(translations) == page
    assert document.write([None] * len(translations)) == page
    assert not document.changed(page)


SIGNS = ["dog", "2 * 3", "_x_", "*y*", "a|b", "[z]", "<i>", "# t", "- u", "1. v", "`w", "&lt;", "\\", "~~s~~"]
WORDS = st.lists(st.sampled_from(SIGNS), min_size=1, max_size=4).map(lambda words: " ".join([*words, "dog"]))
PLACES = ["{}\n", "# {}\n", "- a\n- {}\n", "> {}\n", "a | b\n--|--\n{} | d\n", "1. x\n\n   {}\n", "{}\n===\n"]


@given(st.sampled_from(PLACES), WORDS)
@settings(max_examples=300, deadline=None)
def test_no_translation_becomes_markup(place: str, words: str) -> None:
    page = place.format("seven")
    document = read(page)
    texts: list[Any] = [one.text for one in document.segments]
    texts[texts.index("seven")] = words
    made = document.write(texts)
    assert not document.changed(made), made
    assert [one.text for one in read(made).segments] == texts
