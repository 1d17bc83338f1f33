"""Results in a terminal."""

from __future__ import annotations

from rich.cells import cell_len

from regard.labs.frame.table import grid, lines, shown, summary, verdict_lines
from regard.labs.frame.values import text


def test_columns_stand_straight_with_chinese_in_them():
    table = grid(["组", "n"], [["注意力", "1"], ["RNN", "1,024"]], [False, True])
    assert {cell_len(line) for line in table} == {6 + 2 + 5}


def test_cells():
    assert shown(1234.5) == "1,234" or shown(1234.5) == "1,235"
    assert shown(0.00012345) == "0.0001234" or shown(0.00012345) == "0.0001235"
    assert (shown(1000), shown(None), shown(True, "zh"), shown(text("a", "甲"), "zh")) == ("1,000", "", "是", "甲")


def test_a_result_is_told_in_either_language(measured):
    english, chinese = ("\n".join(lines(measured("anatomy"), its)) for its in ("en", "zh"))
    assert "Verdict: not as written." in english
    assert "6. not as written" in english
    assert "结论: 与原文不符" in chinese
    assert "编码器每层都会生成K" in english, "the quote stands as it was written"
    assert len(english.split("\n")) == len(chinese.split("\n"))


def test_sabotage_and_summary(measured):
    broken = measured("anatomy", True)
    assert verdict_lines(broken)[-1] == "Sabotaged on purpose: caught"
    missed = broken.model_copy(update={"verdict": broken.expected})
    assert verdict_lines(missed)[-1].endswith("NOT caught")
    other = measured("anatomy").model_copy(update={"expected": "holds"})
    told = "\n".join(summary([measured("anatomy"), broken, other]))
    assert "caught" in told
    assert "documented: holds" in told
