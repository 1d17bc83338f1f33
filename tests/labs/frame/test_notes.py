"""Quotes."""

from __future__ import annotations

from regard.labs.frame.notes import first, second


def test_quotes_name_their_note():
    one, two = first("节", "原文", "text"), second("节", "原文", "text")
    assert one.note.startswith("N1")
    assert two.note.startswith("N2")
    assert one.say("zh") == "原文"
    assert one.say("en") == "text"
