"""Plain text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from regard.text.formats.plain import read

TEXT = "  Title\r\n\r\n\tOne line.  \n\n12 345\nTwo\u2028lines\r"


def test_lines_are_segments_and_odd_line_ends_are_not_s_data_01() -> None:
    document = read(TEXT)
    assert [one.text for one in document.segments] == ["Title", "One line.", "Two\u2028lines"]
    assert document.write(["A", "B", "C"]) == "  A\r\n\r\n\tB  \n\n12 345\nC\r"
    assert not document.changed(document.write(["A", "B", "C"]))


@given(st.text(max_size=60))
def test_any_text_comes_back(text: str) -> None:
    document = read(text)
    assert document.write([None] * len(document.segments)) == text
    assert document.write([one.text for one in document.segments]) == text
