"""L22, from made-up rows."""

from __future__ import annotations

import pytest

from regard.evaluation import task
from regard.labs import ladder
from regard.labs.frame.lab import Setting
from regard.labs.frame.values import verdict_of
from regard.labs.ladder import ARMS, COLUMNS, MINUTES, judge, settings, told
from regard.text.grammar import sentences
from regard.training.loop import train
from regard.training.output import claim
from regard.training.recipe import load_recipe


def by(rows, **changed):
    return {row["arm"]: row | changed.get(row["arm"], {}) for row in rows}


def test_the_verdict_follows_from_the_rows(ladder_rows):
    assert verdict_of(judge(by(ladder_rows))) == "holds"
    assert verdict_of(judge(by(ladder_rows, transformer={"low_dot": -1.0}))) == "holds_with_limits"
    assert verdict_of(judge(by(ladder_rows, transformer={"low_fixed": -1.0}))) == "not_as_written"
    assert verdict_of(judge(by(ladder_rows, fixed={"bleu0": 3.0}))) == "inconclusive", "nothing was learned"
    assert verdict_of(judge(by(ladder_rows, dot={"minutes": 40.0}))) == "inconclusive", "unequal budgets"


def test_what_is_told_has_the_figures_of_the_rows(ladder_rows):
    its = told(ladder_rows, [])
    assert "Transformer 58.0" in its.finding.en
    assert {column.key for column in COLUMNS} <= set(its.rows[0])
    assert len(its.plots[0].lines) == 4


def test_each_arm_s_recipe_takes_the_lab_s_settings():
    """The training itself is the recipes'; what the lab lays on top of them must fit."""
    for recipe, _ in ARMS.values():
        loaded = load_recipe(recipe, settings(7))
        assert loaded.training.max_minutes == MINUTES
        assert loaded.training.seed == 8


@pytest.mark.slow
def test_what_is_measured_of_trained_models(monkeypatch, tmp_path):
    """All arms are one toy model: the rows are complete, and equal arms do not differ."""
    folder = tmp_path / "toy"
    claim(folder, load_recipe("demo"))
    train(load_recipe("demo", ["data.max_pairs=64", "training.max_steps=3", "data.test=null"]), folder)
    monkeypatch.setattr(ladder, "trained", lambda recipe, its, settings: folder)
    pairs = sentences("grammar-en-fr", 12, split="test")
    toy = task.Task([[its.target for its in pairs]], [its.source for its in pairs])
    monkeypatch.setattr(task, "task_of_pairs", lambda *_: toy)
    lengths = sorted({len(its.source.split()) for its in pairs})
    monkeypatch.setattr(ladder, "BUCKETS", tuple(lengths[:3]))
    assert len(lengths) > 3
    its = ladder._train(Setting())
    assert [row["arm"] for row in its.rows] == list(ARMS)
    assert all(row["low_fixed"] == row["high_fixed"] == 0.0 for row in its.rows)
    assert {column.key for column in COLUMNS} <= set(its.rows[0])
    assert [plot.cells is None for plot in its.plots] == [True, False, False, False]
