"""Quotes."""

from __future__ import annotations

import re

import pytest

from regard import labs
from regard.labs.frame.notes import first, second

FILES = {"N1": "深度注意力模型", "N2": "什么是注意力机制"}
"""What stands at the beginning of each note."""


def plain(text):
    """Without mathematical dress, kinds of quotation marks, spaces and cells of tables."""
    text = re.sub(r"\\sum_\{i=1\}\^\{d_k\}", "Σ", text)
    text = re.sub(r"\\sqrt\{(\w+)\}", r"√\1", text)
    text = re.sub(r"\\mathbf\{(\w)\}", r"\1", text.replace("$", "").replace("^2", "²"))
    return re.sub(r"[\s|“”\"*]", "", text)


@pytest.fixture
def notes(data_root):
    found = [path.read_text(encoding="utf-8") for path in sorted((data_root.parent / "notes").glob("*.txt"))]
    if not found:
        pytest.skip("the course notes are not there")
    return {name: plain(next(text for text in found if begin in text[:100])) for name, begin in FILES.items()}


def test_quotes_name_their_note():
    one, two = first("节", "原文", "text"), second("节", "原文", "text")
    assert one.note.startswith("N1")
    assert two.note.startswith("N2")
    assert one.say("zh") == "原文"
    assert one.say("en") == "text"


@pytest.mark.parametrize("name", labs.names())
def test_quotes_stand_in_the_notes_as_they_are_written(notes, name):
    for quote in labs.find(name).quotes:
        written = notes[quote.note[:2]]
        for piece in re.split("……|…", quote.zh):
            assert plain(piece).rstrip("。") in written, quote.zh


def test_numbers_leave_no_gap():
    assert [lab.number for lab in labs.every()] == list(range(1, len(labs.names()) + 1))
