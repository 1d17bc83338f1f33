"""Pictures of attention line up, whatever the widths of their characters."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from regard.inspection.views import alignment_text, shows_shades

WEIGHTS = [[0.95, 0.05, 0.0], [0.3, 0.6, 0.1]]


def test_shades_stand_under_their_tokens():
    assert alignment_text(["The", "owl", "."], ["Le", "hibou"], WEIGHTS, shades=True) == (
        "      The owl .\n"
        "   Le ███\n"
        "hibou ▒▒▒ ▓▓▓ ░░"
    )  # fmt: skip


def test_digits_where_only_ascii_is_sure():
    text = alignment_text(["The", "owl", "."], ["Le", "hibou"], WEIGHTS, shades=False)
    assert text == "      The owl .\n   Le  9   .  .\nhibou  3   6  1"
    assert text.isascii()


def test_wide_characters_count_as_two_cells():
    text = alignment_text(["I", "like", "it"], ["我", "喜欢", "它"], [[1, 0, 1], [0, 1, 1], [0, 0, 1]], shades=True)
    assert [cell_len(line) for line in text.split("\n")] == [4 + 3 + 5 + 3] * 4
    wide = alignment_text(["我", "喜欢"], ["I", "like"], [[1, 1], [1, 1]], shades=True)
    assert {cell_len(line) for line in wide.split("\n")} == {4 + 3 + 5}


def test_what_does_not_fit_goes_below():
    weights = [[1.0] * 30] * 2
    text = alignment_text(["word"] * 30, ["mot", "mot"], weights, width=40, shades=True)
    tables = text.split("\n\n")
    assert len(tables) == 5
    assert max(cell_len(line) for line in text.split("\n")) <= 40
    assert sum(table.split("\n")[0].count("word") for table in tables) == 30
    narrow = alignment_text(["extraordinary"], ["x"], [[1.0]], width=5, shades=True)
    assert "extraordinary" in narrow


def test_control_characters_and_spaces_do_not_break_the_table():
    text = alignment_text(["\x1b[2J", " ", "\n"], ["a\nb"], [[1, 0, 0]], shades=True)
    assert len(text.split("\n")) == 2
    assert "\x1b" not in text


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"\[2 3\]"):
        alignment_text(["a", "b", "c"], ["x", "y"], [[1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match=r"\[1 1\]"):
        alignment_text(["a"], ["x"], [[1.0, 0.0]])


def test_the_locale_decides_by_default(monkeypatch):
    monkeypatch.delenv("LC_ALL", raising=False)
    for told, shades in (("C", False), ("POSIX", False), ("C.UTF-8", True), ("fr_FR.UTF-8", True), ("", True)):
        monkeypatch.setenv("LANG", told)
        assert shows_shades() is shades
        assert alignment_text(["a"], ["x"], [[1.0]]).endswith("██" if shades else "9")
    monkeypatch.setenv("LC_ALL", "C")
    assert not shows_shades()
