"""L23, from made-up rows."""

from __future__ import annotations

from pathlib import Path

from regard.labs import finetune
from regard.labs.finetune import FEW, SEEDS, TASKS, judge, told
from regard.labs.frame.lab import Setting
from regard.labs.frame.values import verdict_of
from regard.training.recipe import load_recipe


def rows(scratch=60.0, pretrained=75.0, every=(80.0, 82.0)):
    """Per cent right by task, number of labels, arm and seed."""
    made = []
    for task in TASKS:
        for labels in (*FEW, 0):
            shares = dict(zip(("scratch", "pretrained"), (scratch, pretrained) if labels else every))
            made += [
                {
                    "arm": arm,
                    "task": task,
                    "labels": labels,
                    "seed": seed,
                    "accuracy": share + 0.1 * seed * (arm == "scratch"),
                }
                for arm, share in shares.items()
                for seed in range(5)
            ]
    return made


def test_the_verdict_follows_from_the_gains():
    assert verdict_of(judge(rows())) == "holds_with_limits"
    assert verdict_of(judge(rows(every=(80.0, 95.0)))) == "holds"
    assert verdict_of(judge(rows(pretrained=60.0))) == "not_as_written"
    assert verdict_of(judge(rows(every=(59.0, 70.0)))) == "inconclusive", "more labels do not help"


def test_what_is_told_has_the_figures_of_the_rows():
    its = told(rows(), [])
    assert "trec with 100 labels 60.2 % → 75.0 %" in its.finding.en
    assert len(its.rows) == len(TASKS) * 3 * 2 * 5


def test_both_arms_are_trained_for_each_task_number_of_labels_and_seed(monkeypatch):
    begun = []

    def trained(recipe, folder, settings):
        load_recipe(recipe, settings)  # refuses a setting that does not fit
        begun.append((recipe, tuple(settings), folder))
        return folder

    monkeypatch.setattr(finetune, "trained", trained)
    monkeypatch.setattr(finetune, "_accuracy", lambda folder: 50.0 + 20 * ("pretrained" in str(folder)))
    its = finetune._train(Setting(size="full"))
    assert begun[0][0] == "english-bert"
    assert len(begun) == len(set(begun)) == 1 + len(TASKS) * (len(FEW) + 1) * SEEDS * 2
    assert sum(f"model.from={begun[0][2]}" in settings for _, settings, _ in begun) == (len(begun) - 1) // 2
    assert len({folder for _, _, folder in begun}) == len(begun)
    assert all(isinstance(folder, Path) for _, _, folder in begun)
    assert "70.0 %" in its.finding.en
