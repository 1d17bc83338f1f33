"""What holds for every kind of task: it learns, and goes on exactly where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file

from regard.checkpoints.folders import load_model
from regard.errors import UserError
from regard.training import tasks
from regard.training.journal import read_log
from regard.training.loop import steps, train
from regard.training.prepare import prepare
from regard.training.recipe import Recipe
from regard.training.run import Run
from regard.training.sections import TaskKind

KINDS = ["language", "blocks", "masked", "permutation", "spans", "denoising", "classification", "pairs", "tagging", "images"]


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


FINE = [("masked", "classification"), ("permutation", "classification"), ("language", "classification")]
BODIES = {"masked": "encoder.blocks.0.", "permutation": "", "language": "decoder.blocks.0."}


@pytest.mark.parametrize(("first", "then"), [*FINE, ("masked", "tagging"), ("masked", "pairs")])
def test_a_pretrained_folder_is_fine_tuned_with_a_fresh_head(
    made: Callable[..., Recipe], tmp_path: Path, capsys: pytest.CaptureFixture[str], first: str, then: str
) -> None:
    pretrained = tmp_path / "pretrained"
    train(made(first), pretrained)
    model = {"from": str(pretrained), "fresh_head": True}
    recipe = made(then, model=model, training={"max_steps": 4})
    capsys.readouterr()
    run = Run(recipe, prepare(recipe), tmp_path / "probe")
    assert any(note.startswith("fresh head, untrained: head.") for note in run.notes)
    old = load_file(pretrained / "model.safetensors")
    rows = run.plain.state_dict()
    tokens = next(t for name, t in rows.items() if name.endswith("embed.tokens.weight"))
    assert any(t.shape == tokens.shape and torch.equal(t, tokens) for t in old.values())
    train(recipe, tmp_path / "tuned")
    said = " ".join(capsys.readouterr().err.split())
    assert "fresh head, untrained: head." in said
    _, _, meta = load_model(tmp_path / "tuned")
    assert meta["labels"]
    again = made(then, model={"from": str(tmp_path / "tuned")}, training={"max_steps": 2})
    train(again, tmp_path / "more")  # its head is kept, and needs no word
    with pytest.raises(UserError, match=r"set model\.fresh_head: true"):
        train(made(then, model={"from": str(pretrained)}), tmp_path / "not")
