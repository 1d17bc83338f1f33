"""L23, from made-up rows."""

from __future__ import annotations

from regard.labs.finetune import FEW, TASKS, judge, told
from regard.labs.frame.values import verdict_of


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
