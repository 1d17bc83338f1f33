"""The training loop, run for real on a toy."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard.batches import Batch
from regard.batches.objectives import Translation
from regard.errors import UserError
from regard.training import loop, resume
from regard.training.journal import read_log
from regard.training.loop import Stopped, forward_backward, steps, train
from regard.training.prepare import prepare
from regard.training.recipe import Recipe, load_recipe
from regard.training.run import Run
from regard.training.validate import Look

CLOCKS = ("source_per_second", "target_per_second")


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(left: Path, right: Path) -> bool:
    ours, theirs = weights(left), weights(right)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def log(output: Path) -> list[dict[str, Any]]:
    return [{key: value for key, value in entry.items() if key not in CLOCKS} for entry in read_log(output)]


def test_a_run_ends_as_a_model_folder(toy_recipe: Recipe, tmp_path: Path) -> None:
    output = tmp_path / "out"
    result = train(toy_recipe, output)
    assert result.steps == 12
    assert "max_steps" in result.reason
    for name in ("config.json", "model.safetensors", "tokenizer.json", "recipe.yaml", "log.jsonl", "loss.png", "README.md"):
        assert (output / name).is_file(), name
    assert result.scores["chrf"]["signature"].startswith("nrefs:1")
    assert len((output / "test.hyp").read_text(encoding="utf-8").split("\n")) == 7
    names = [folder.name for folder in resume.found(output)]
    assert names[-1] == "step-00000012"
    assert all((output / "checkpoints" / name / "tokenizer.json").is_file() for name in names)


def test_the_loss_falls(toy_recipe: Recipe, tmp_path: Path) -> None:
    long = load_recipe_with(toy_recipe, max_steps=120, evaluate_every=120, save_every=120, log_every=10)
    train(long, tmp_path / "out")
    losses = [entry["loss"] for entry in log(tmp_path / "out") if "loss" in entry]
    assert losses[-1] < 0.8 * losses[0]


def load_recipe_with(recipe: Recipe, **training: Any) -> Recipe:
    return recipe.model_copy(update={"training": recipe.training.model_copy(update=training)})


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"accumulate": 3},
        {"prefetch": 0},
        {"ema": 0.9},
        {"average": "last", "average_count": 2},
        {"average": "best", "average_count": 2},
    ],
    ids=str,
)
def test_a_resumed_run_equals_an_unbroken_one(toy_recipe: Recipe, tmp_path: Path, change: dict[str, Any]) -> None:
    """S-RES-01, S-RES-03: stopped after 5 of 12 updates, in an epoch and between two checkpoints."""
    recipe = load_recipe_with(toy_recipe, **change)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(recipe, whole)
    shorter = prepare(recipe)
    run = Run(recipe, shorter, broken)
    broken.mkdir()
    for step in steps(run):
        if step.number == 4:
            run.save()
        if step.number == 5:
            break
    result = train(recipe, broken, resumed=True)
    assert result.steps == 12
    assert same(whole, broken)
    assert [e for e in log(whole) if e["step"] > 4] == log(broken)


def test_killed_in_the_middle_and_resumed_to_the_last_bit(toy: Path, tmp_path: Path) -> None:
    """Kill -9 while it trains; the resumed run cannot be told from one that was never stopped."""
    command = [sys.executable, "-m", "regard", "train", str(toy), "training.max_steps=60", "training.evaluate_every=10"]
    environment = dict(os.environ)
    subprocess.run([*command, f"output={tmp_path / 'whole'}"], check=True, capture_output=True, env=environment)
    broken = tmp_path / "broken"
    process = subprocess.Popen([*command, f"output={broken}"], stderr=subprocess.DEVNULL, env=environment)
    end = time.monotonic() + 120
    while len(resume.found(broken)) < 2 and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert resume.found(broken)
    subprocess.run([*command, f"output={broken}", "--resume"], check=True, capture_output=True, env=environment)
    assert same(tmp_path / "whole", broken)
    assert log(tmp_path / "whole") == log(broken)


def test_resuming_at_the_end_of_an_epoch(toy_recipe: Recipe, tmp_path: Path) -> None:
    """S-RES-04, S-RES-07: a checkpoint due at an epoch's last update is written, and goes on into the same next epoch."""
    run = Run(toy_recipe, prepare(toy_recipe), tmp_path / "probe")
    epoch = run.stream.batches
    recipe = load_recipe_with(toy_recipe, max_steps=2 * epoch, save_every=epoch, evaluate_every=1000)
    train(recipe, tmp_path / "whole")
    assert {resume.step_of(folder) for folder in resume.found(tmp_path / "whole")} == {epoch, 2 * epoch}
    train(load_recipe_with(recipe, schedule="constant", max_steps=epoch), tmp_path / "first")
    constant = load_recipe_with(recipe, schedule="constant")
    train(constant, tmp_path / "first", resumed=True)
    train(constant, tmp_path / "second")
    assert same(tmp_path / "first", tmp_path / "second")


def test_a_limit_that_is_reached_already_is_said(
    toy_recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S-RES-02: the number of updates is absolute."""
    train(toy_recipe, tmp_path / "out")
    capsys.readouterr()
    result = train(load_recipe_with(toy_recipe, max_steps=8), tmp_path / "out", resumed=True)
    assert result.steps == 12
    assert "nothing is left to do: update 12 of training.max_steps 8" in capsys.readouterr().err


def test_the_last_group_of_an_epoch_is_an_update_of_its_own(toy_recipe: Recipe, tmp_path: Path) -> None:
    """S-LOSS-03: with n micro-batches an epoch and groups of 4, ceil(n / 4) updates, each over its own tokens."""
    recipe = load_recipe_with(toy_recipe, accumulate=4, max_steps=100)
    run = Run(recipe, prepare(recipe), tmp_path / "out")
    micro, targets = run.stream.batches, int(run.prepared.train.plain.target_lengths.sum() + len(run.prepared.train))
    assert micro % 4, "choose another budget: the test needs an incomplete group"
    seen = []
    for step in steps(run):
        seen.append(step.target_tokens)
        assert all(p.grad is None for p in run.plain.parameters())
        if run.stream.epoch == 1:
            break
    assert len(seen) == math.ceil(micro / 4)
    assert sum(seen) == targets


def test_gradients_do_not_depend_on_how_a_batch_is_cut(toy_recipe: Recipe, tmp_path: Path) -> None:
    """S-LOSS-02 in training: the loss is normalised over the target tokens of the whole group."""
    recipe = toy_recipe.model_copy(
        update={"model": toy_recipe.model.model_copy(update={"dropout": 0.0})},
    )
    run = Run(recipe, prepare(recipe), tmp_path / "out")
    objective = run.prepared.objective or Translation()
    data = run.prepared.train

    def batch(numbers: list[int]) -> Batch:
        import numpy as np

        return objective([data.pair(i) for i in numbers], numbers, np.random.default_rng(0))

    found = []
    for groups in ([[0, 1, 2, 3, 4, 5]], [[0], [1, 2], [3, 4, 5]]):
        loss, count = forward_backward(run, [batch(numbers) for numbers in groups])
        found.append((loss, count, [p.grad.clone() for p in run.plain.parameters()]))
        run.optimizer.zero_grad(set_to_none=True)
    assert found[0][1] == found[1][1]
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-5)
    for left, right in zip(found[0][2], found[1][2], strict=True):
        assert torch.allclose(left, right, atol=1e-6)


def test_a_loss_that_is_no_number_names_its_batch(toy_recipe: Recipe, tmp_path: Path) -> None:
    run = Run(toy_recipe, prepare(toy_recipe), tmp_path / "out")
    with torch.no_grad():
        next(run.plain.parameters()).fill_(math.nan)
    with pytest.raises(UserError, match=r"update 1: the loss is nan.*batch of training lines \d+.*no checkpoint"):
        next(steps(run))


def test_divergence_ends_the_run_in_words(toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "DIVERGED", 5)
    wild = load_recipe_with(
        toy_recipe, learning_rate=50.0, clip_norm=0.0, max_steps=200, schedule="constant", warmup_steps=0
    )
    with pytest.raises(UserError, match=r"training has diverged at update \d+; lower training.learning_rate"):
        train(wild, tmp_path / "out")


def test_patience_ends_the_run(toy_recipe: Recipe, tmp_path: Path) -> None:
    still = load_recipe_with(
        toy_recipe, learning_rate=1e-12, patience=2, evaluate_every=1, max_steps=50, schedule="constant"
    )
    result = train(still, tmp_path / "out")
    assert result.steps < 50
    assert "training.patience" in result.reason


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_leaves(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """S-CLI-04: one Ctrl-C ends with a checkpoint that goes on like an unbroken run."""
    before = loop.forward_backward

    def interrupted(run: Run, group: list[Batch]) -> tuple[float, int]:
        if run.progress.step == 6:
            os.kill(os.getpid(), number)
        return before(run, group)

    monkeypatch.setattr(loop, "forward_backward", interrupted)
    with pytest.raises(Stopped):
        train(toy_recipe, tmp_path / "out")
    monkeypatch.setattr(loop, "forward_backward", before)
    assert resume.found(tmp_path / "out")[-1].name == "step-00000007"
    train(toy_recipe, tmp_path / "out", resumed=True)
    train(toy_recipe, tmp_path / "whole")
    assert same(tmp_path / "out", tmp_path / "whole")


def test_a_full_disk_does_not_end_the_training(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(resume, "write", full)
    result = train(toy_recipe, tmp_path / "out")
    assert result.steps == 12
    assert "cannot write the checkpoint of update 4" in capsys.readouterr().err
    assert not resume.found(tmp_path / "out")


def test_a_budget_is_found_by_trying(toy_recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    automatic = load_recipe_with(toy_recipe, batch_tokens="auto", max_steps=2)
    train(automatic, tmp_path / "out")
    assert "the largest that fits" in capsys.readouterr().err


def test_the_same_seed_gives_the_same_weights(toy_recipe: Recipe, tmp_path: Path) -> None:
    for name in ("one", "two"):
        train(toy_recipe, tmp_path / name)
    assert same(tmp_path / "one", tmp_path / "two")
    other = load_recipe_with(toy_recipe, seed=2)
    train(other, tmp_path / "three")
    assert not same(tmp_path / "one", tmp_path / "three")


def test_the_saved_recipe_trains_again(toy_recipe: Recipe, toy: Path, tmp_path: Path) -> None:
    """S-RES-09: resume three times from the saved configuration alone."""
    train(toy_recipe, tmp_path / "out")
    for _ in range(3):
        saved = load_recipe(tmp_path / "out" / "recipe.yaml")
        assert train(saved, tmp_path / "out", resumed=True).steps == 12


@pytest.mark.parametrize("change", [{}, {"average": "last", "average_count": 2}, {"log_every": 5}], ids=str)
@pytest.mark.parametrize("at", [5, 6])
def test_s_cli_04_stopped_where_an_evaluation_is_due(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, change: dict[str, Any]
) -> None:
    """S-CLI-04: Ctrl-C in update 6, before its evaluation, or in 7: what was put off is done when the run goes on, and a
    checkpoint that only the signal asked for takes no part in a mean of the last."""
    recipe = load_recipe_with(toy_recipe, save_every=4, **change)
    train(recipe, tmp_path / "whole")
    before = loop.forward_backward

    def interrupted(run: Run, group: list[Batch]) -> tuple[float, int]:
        if run.progress.step == at:
            os.kill(os.getpid(), signal.SIGINT)
        return before(run, group)

    monkeypatch.setattr(loop, "forward_backward", interrupted)
    with pytest.raises(Stopped):
        train(recipe, tmp_path / "out")
    monkeypatch.setattr(loop, "forward_backward", before)
    train(recipe, tmp_path / "out", resumed=True)
    assert same(tmp_path / "out", tmp_path / "whole")
    assert log(tmp_path / "out") == log(tmp_path / "whole")


def test_a_damaged_best_checkpoint_is_not_what_a_run_ends_as(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = iter([-1.0, -2.0])
    monkeypatch.setattr(Look, "value", lambda its, monitor: next(values))
    train(toy_recipe, tmp_path / "out")
    best, newest = (resume.folder_of(tmp_path / "out", step) for step in (6, 12))
    assert torch.equal(*(next(iter(weights(folder).values())) for folder in (best, tmp_path / "out")))
    data = bytearray((best / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (best / "model.safetensors").write_bytes(data)
    capsys.readouterr()
    train(toy_recipe, tmp_path / "out", resumed=True)
    assert "is left out of the finished model: model.safetensors is not what was written" in capsys.readouterr().err
    assert torch.equal(*(next(iter(weights(folder).values())) for folder in (newest, tmp_path / "out")))


def test_examples_over_the_limit_are_named(toy_recipe: Recipe, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They were left out of the training, and of every look at the validation data, without a word."""
    data = toy_recipe.data.model_copy(update={"max_length": 5})
    train(toy_recipe.model_copy(update={"data": data}), tmp_path / "out")
    said = capsys.readouterr().err
    assert re.search(r"training data: \d+ of \d+ examples skipped, source longer than 5 tokens: lines \d+, ", said)
    assert re.search(r"validation data: \d of 6 examples skipped, target longer than 5 tokens: lines? \d", said)


def test_s_pos_02_no_half_reads_more_than_it_has_positions_for(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """S-POS-02: five positions, sentences of up to seven tokens: the training goes on without those, and says so."""
    recipe = load_recipe(toy, ["model.positions=learned", "model.max_positions=5"])
    assert recipe.data.max_length > 5
    assert train(recipe, tmp_path / "out").steps == 12
    assert re.search(r"training data: \d+ of \d+ examples skipped, source longer than 5 tokens", capsys.readouterr().err)


def test_s_cli_04_stopped_where_patience_would_have_ended_it(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-CLI-04: Ctrl-C in update 6, whose evaluation is the second without a better one: found by killing 200 trainings. The
    evaluation is made up for, the run is over, and its last checkpoint is one that was due."""
    values = iter([3.0, 2.0, 1.0] * 2)
    monkeypatch.setattr(Look, "value", lambda its, monitor: next(values))
    recipe = load_recipe_with(toy_recipe, save_every=4, evaluate_every=2, patience=2, keep_last=1)
    train(recipe, tmp_path / "whole")
    before = loop.forward_backward

    def interrupted(run: Run, group: list[Batch]) -> tuple[float, int]:
        if run.progress.step == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return before(run, group)

    monkeypatch.setattr(loop, "forward_backward", interrupted)
    with pytest.raises(Stopped):
        train(recipe, tmp_path / "out")
    train(recipe, tmp_path / "out", resumed=True)
    names = [[folder.name for folder in resume.found(tmp_path / name)] for name in ("whole", "out")]
    assert names[0] == names[1] == ["step-00000002", "step-00000006"]
    assert same(tmp_path / "out", tmp_path / "whole")


def test_s_cli_04_killed_after_its_last_checkpoint_and_before_older_ones_went(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-CLI-04: found by killing 200 trainings. What goes on has nothing more to write, and clears away all the same."""
    recipe = load_recipe_with(toy_recipe, save_every=4, keep_last=1)
    train(recipe, tmp_path / "whole")
    before = resume.prune

    def killed(output: Path, keep: Any, step: int) -> list[Path]:
        if step == 12:
            raise KeyboardInterrupt
        return before(output, keep, step)

    monkeypatch.setattr(resume, "prune", killed)
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "out")
    monkeypatch.setattr(resume, "prune", before)
    left = [folder.name for folder in resume.found(tmp_path / "out")]
    train(recipe, tmp_path / "out", resumed=True)
    names = [[folder.name for folder in resume.found(tmp_path / name)] for name in ("whole", "out")]
    assert names[0] == names[1]
    assert len(left) > len(names[1])
    assert same(tmp_path / "out", tmp_path / "whole")
