"""A document is its own text; marks in its segments come back exactly once."""

from __future__ import annotations

import pytest

from regard.text.formats.document import Document, Piece, cut, segment, whole


def made(text: str) -> Document:
    """*text* is one segment; [a] opens, [/a] closes, {x} stands alone."""
    import re

    start, end = text.index("*") + 1, text.rindex("*")
    pieces, at = [], start
    for match in re.finditer(r"\[(/?)(\w+)\]|\{\w+\}", text):
        if at < match.start():
            pieces.append(Piece("text", at, match.start(), text[at : match.start()]))
        kind = "alone" if match[2] is None else "close" if match[1] else "open"
        pieces.append(Piece(kind, match.start(), match.end(), match[2] or ""))
        at = match.end()
    if at < end:
        pieces.append(Piece("text", at, end, text[at:end]))
    one = segment(pieces)
    return Document(text, [one] if one else [], made)


def test_marks_stand_for_what_is_no_text() -> None:
    document = made("<*one [b]two[/b] {x} three*>")
    assert document.segments[0].text == "one <g1>two</g1> <x2/> three"
    assert document.write([None]) == document.write([document.segments[0].text]) == document.source
    assert document.write(["<x2/> drei <g1>zwei</g1>"]) == "<*{x} drei [b]zwei[/b]*>"
    assert not document.changed("<*{x} drei [b]zwei[/b]*>")
    assert document.changed("<*drei [b]zwei[/b]*>")
    assert document.changed("<<*{x} drei [b]zwei[/b]*>")


def test_what_is_not_a_pair_stands_alone() -> None:
    assert made("*a [b]c*").segments[0].text == "a <x1/>c"
    assert made("*[/b]a [b]c[i]d[/b]e[/i]*").segments[0].text == "<x1/>a <g2>c<x3/>d</g2>e<x4/>"
    assert made("*[b]1[/b]{x}*").segments == []


def test_text_that_looks_like_a_mark_is_not_touched() -> None:
    assert segment([Piece("text", 0, 3, "one"), Piece("text", 3, 7, "<g1>")]) is None
    assert segment([Piece("text", 0, 3, "one <"), Piece("text", 3, 7, "x1/>")]) is None


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("<g1>a</g1><x2/>", True),
        ("<x2/><g1></g1>", True),
        ("</g1>a<g1><x2/>", False),
        ("<g1>a</g1>", False),
        ("<g1>a</g1><x2/><x2/>", False),
        ("<g3>a</g3><x2/>", False),
    ],
)
def test_marks_are_there_exactly_once(text: str, right: bool) -> None:
    document = made("*[b]one[/b]{x}*")
    assert whole(document.segments[0], text) is right
    if not right:
        with pytest.raises(ValueError, match="segment 0"):
            document.write([text])
    with pytest.raises(ValueError, match="2 translations for 1 segments"):
        document.write([text, text])


def test_pairs_do_not_cross() -> None:
    document = made("*[b]one[/b] [i]two[/i]*")
    assert whole(document.segments[0], "<g2>a<g1>b</g1></g2>")
    assert not whole(document.segments[0], "<g2>a<g1>b</g2></g1>")


def test_cut() -> None:
    assert cut("a<g1>b</g1>") == ["a", "<g1>", "b", "</g1>", ""]
    assert cut("a < b <x1>") == ["a < b <x1>"]
