"""What holds for every kind of task: it learns, and goes on exactly where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file

from regard.checkpoints.folders import load_model
from regard.training import tasks
from regard.training.journal import read_log
from regard.training.loop import steps, train
from regard.training.prepare import prepare
from regard.training.recipe import Recipe
from regard.training.run import Run
from regard.training.sections import TaskKind

KINDS = ["language", "blocks", "masked", "spans", "denoising", "classification", "pairs", "tagging", "images"]


def test_every_kind_has_a_module_that_keeps_the_promise() -> None:
    assert set(tasks.MODULES) == set(get_args(TaskKind))
    for kind in get_args(TaskKind):
        assert all(callable(getattr(tasks.find(kind), name)) for name in ("prepare", "look", "test"))


def losses(output: Path) -> list[float]:
    return [entry["loss"] for entry in read_log(output) if "loss" in entry]


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_falls_and_a_resumed_run_equals_an_unbroken_one(
    made: Callable[..., Recipe], tmp_path: Path, kind: str
) -> None:
    """S-RES-01 for every task: stopped after 5 of 24 updates, in an epoch and between two checkpoints."""
    slow = {"max_steps": 48, "learning_rate": 0.02} if kind in ("classification", "pairs") else {"max_steps": 24}
    recipe = made(kind, training={"evaluate_every": 12, "log_every": 6} | slow)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    result = train(recipe, whole)
    fallen = losses(whole)
    assert fallen[-1] < 0.95 * fallen[0]
    assert result.scores
    run = Run(recipe, prepare(recipe), broken)
    broken.mkdir()
    for step in steps(run):
        if step.number == 4:
            run.save()
        if step.number == 5:
            break
    train(recipe, broken, resumed=True)
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (whole, broken))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    model, _, meta = load_model(whole)
    assert not model.training
    assert meta["task"] == recipe.task.kind


def evaluations(output: Path) -> list[dict[str, Any]]:
    return [entry for entry in read_log(output) if "valid_loss" in entry]
