"""L22, from made-up rows."""

from __future__ import annotations

from regard.labs.frame.values import verdict_of
from regard.labs.ladder import COLUMNS, judge, told


def by(rows, **changed):
    return {row["arm"]: row | changed.get(row["arm"], {}) for row in rows}


def test_the_verdict_follows_from_the_rows(ladder_rows):
    assert verdict_of(judge(by(ladder_rows))) == "holds"
    assert verdict_of(judge(by(ladder_rows, transformer={"low_dot": -1.0}))) == "not_as_written"
    assert verdict_of(judge(by(ladder_rows, rnn={"bleu0": 3.0}))) == "inconclusive", "nothing was learned"
    assert verdict_of(judge(by(ladder_rows, dot={"minutes": 40.0}))) == "inconclusive", "unequal budgets"


def test_what_is_told_has_the_figures_of_the_rows(ladder_rows):
    its = told(ladder_rows, [])
    assert "Transformer 58.0" in its.finding.en
    assert {column.key for column in COLUMNS} <= set(its.rows[0])
    assert len(its.plots[0].lines) == 4
