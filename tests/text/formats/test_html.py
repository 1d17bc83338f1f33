"""HTML pages."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.formats.html import read

PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>A &amp; B</title>
<meta name="description" content="About dogs">
<style>p > a { color: red }</style><script>if (a < b) { say("no text") }</script></head>
<body class='x'>
<!-- a comment -->
<h1>Two <em>big</em> dogs</h1>
<p>
  See <a href="https://a.example/?q=1&amp;r=2" title="The page">the page</a>,
  run <code>git &amp; go</code>&nbsp;now!<br>A new line &mdash; 5 &lt; 6 &copy; AT&T
</p>
<ul><li>one</li><li>two <b>bold <i>both</i></b><ul><li>你好<b>世界</b>。</li></ul></li></ul>
<table><tr><th>Head</th><td>12</td><td>cell <img src="a.png" alt="A dog"></td></tr></table>
<pre>kept  as
 it is</pre><p translate="no">Not this</p><p>Not <span class="notranslate">Bender</span> this
<textarea>nor this</textarea></p>
<input placeholder="Your name"><button>Send</button><p></p>&#x41;bc
</body></html>
"""
TEXTS = [
    "A & B",
    "Two <g1>big</g1> dogs",
    "See <g1>the page</g1>, run <x2/>\xa0now!",
    "A new line — 5 < 6 © AT&T",
    "one",
    "two <g1>bold <g2>both</g2></g1>",
    "你好<g1>世界</g1>。",
    "Head",
    "cell <x1/>",
    "Not <x1/> this",
    "Send",
    "Abc",
]


def test_what_is_translated() -> None:
    assert [one.text for one in read(PAGE).segments] == TEXTS


@pytest.mark.parametrize("attributes", [False, True])
def test_a_page_comes_back_byte_for_byte(attributes: bool) -> None:
    for page in (PAGE, PAGE.replace("\n", "\r\n")):
        document = read(page, attributes)
        assert document.write([None] * len(document.segments)) == page
        assert document.write([one.text for one in document.segments]) == page
        assert not document.changed(page)


def test_translations_are_escaped_and_tags_move_with_them() -> None:
    document = read("<p>Two <b>big</b> dogs&nbsp;&amp; cats</p><!-- x --><p>End</p>")
    made = document.write(["Chiens\xa0& <3 chats <g1>grands</g1>", None])
    assert made == "<p>Chiens&nbsp;&amp; &lt;3 chats <b>grands</b></p><!-- x --><p>End</p>"
    assert not document.changed(made)


def test_attributes_are_translated_if_asked_for() -> None:
    text = """<p>A <a title='The "x"' href="u">b</a> <img alt="A dog" src=x></p><meta name="description" content="Dogs">"""
    assert [one.text for one in read(text).segments] == ["A <g1>b</g1> <x2/>"]
    document = read(text, attributes=True)
    assert [one.text for one in document.segments] == ["A <g1>b</g1> <x2/>", 'The "x"', "A dog", "Dogs"]
    made = document.write(["Un <x2/> <g1>b</g1>", 'L\'x "y"', None, "<Chiens>"])
    assert made == (
        """<p>Un <img alt="A dog" src=x> <a title='L&#x27;x &quot;y&quot;' href="u">b</a></p>"""
        """<meta name="description" content="&lt;Chiens&gt;">"""
    )
    assert not document.changed(made)
    assert read('<p data-title="no">x</p>', True).segments[0].text == "x"


def test_broken_markup_is_left_as_it_is() -> None:
    for page in (
        "<p>a<b>b</p><p>c</b>d",
        "<p",
        "a < b & c",
        "<script>x",
        "<!-- <p>x",
        "</p>x<br/>y<code>z",
        "&bogus; &amp x",
    ):
        document = read(page)
        assert document.write([one.text for one in document.segments]) == page
        assert document.write([None] * len(document.segments)) == page


def test_markup_behind_a_broken_reference_stays_markup() -> None:
    """The parser of the standard library takes all that follows "&#" for text: the tags would have been escaped."""
    page = "<p>Price &# <b>one</b>;</p><p>two</p>"
    document = read(page)
    assert [one.text for one in document.segments] == ["Price &# <g1>one</g1>;", "two"]
    assert document.write(["Preis &# <g1>eins</g1>;", None]) == "<p>Preis &amp;# <b>eins</b>;</p><p>two</p>"


@pytest.mark.parametrize("reference", ["&#" + "9" * 5000 + ";", "&#" + "0" * 5000 + "65;", "&#x110000;", "&#99999999999"])
def test_references_to_no_character(reference: str) -> None:
    """Numbers of thousands of digits are more than Python reads."""
    page = f"<p title='{reference}'>a {reference}</p>"
    (one,) = read(page).segments
    assert one.text == ("a A" if "65" in reference else "a \ufffd")
    assert len(read(page, attributes=True).segments) in (1, 2)


def test_sections_that_are_none_are_comments() -> None:
    for page in ("<p>a <![x[ b ]]> c</p>", "<![if !IE]><p>a</p><![endif]>", "<p>a<![x</p>"):
        document = read(page)
        assert document.write([None] * len(document.segments)) == page
    document = read("<p>a\n<![ x]>\n b</p><p>c</p>")
    assert [one.text for one in document.segments] == ["a <x1/> b", "c"]
    assert document.write(["<x1/> d", "e"]) == "<p><![ x]> d</p><p>e</p>"


BITS = ["<p>", "</p>", "<b>", "</b>", "<i>", "</i>", "<br>", "<code>", "</code>", "dog ", "cat", " ", "\n", "&amp;", "你好",
        "<!-- c -->", '<img alt="x y">', "<ul>", "<li>", "</li>", "&nbsp;", "<x1/>", "&lt;g1&gt;", "<a title='t'>", "</a>",
        "1 < 2 ", "&#", "<![x[y]>", "&#99999999999;", "<!--", "<a"]  # fmt: skip


@given(st.lists(st.sampled_from(BITS), max_size=14), st.booleans())
@settings(max_examples=300, deadline=None)
def test_structure_is_kept_whatever_the_page_is(bits: list[str], attributes: bool) -> None:
    page = "".join(bits)
    document = read(page, attributes)
    assert document.write([one.text for one in document.segments]) == page
    translations: list[Any] = [one.text.replace("dog", "hund & <b>") for one in document.segments]
    made = document.write(translations)
    assert not document.changed(made), (page, made)
    assert [one.text for one in read(made, attributes).segments] == translations
