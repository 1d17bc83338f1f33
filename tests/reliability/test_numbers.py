"""Numbers at their ends: overflow in half precision, batches without anything, rows of padding, sources of no length."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import models
from regard.batches import Batch
from regard.decoding.options import Search
from regard.decoding.search import search
from regard.errors import UserError
from regard.layout import Layout
from regard.training import loop
from regard.training.journal import read_log
from regard.training.optimizers import learning_rate
from regard.training.prepare import prepare
from regard.training.recipe import Recipe
from regard.training.run import Run


def with_training(recipe: Recipe, **training: object) -> Recipe:
    return recipe.model_copy(update={"training": recipe.training.model_copy(update=training)})


def overflowing(monkeypatch: pytest.MonkeyPatch, which: Callable[[int], bool]) -> None:
    """Have the gradients of some updates (by number from 1, dropped ones counted) be infinite."""
    before, count = loop.forward_backward, itertools.count(1)

    def acting(run: Run, group: list[Batch]) -> tuple[float, int]:
        found = before(run, group)
        if which(next(count)):
            weight = next(run.plain.parameters())
            weight.grad = torch.full_like(weight, math.inf)
        return found

    monkeypatch.setattr(loop, "forward_backward", acting)


def test_s_amp_01_dropped_updates_move_no_schedule(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-AMP-01: infinite gradients in updates 1 and 2 of 10, warm-up over 10: the schedule moves eight times."""
    recipe = with_training(toy_recipe, warmup_steps=10)
    run = Run(recipe, prepare(recipe), tmp_path)
    run.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = {name: weight.clone() for name, weight in run.plain.named_parameters()}
    overflowing(monkeypatch, lambda number: number <= 2)
    seen = []
    for step in itertools.islice(loop.steps(run), 10):
        seen.append(step)
        if len(seen) == 2:
            assert all(torch.equal(before[name], weight) for name, weight in run.plain.named_parameters())
    assert [step.skipped for step in seen] == [True] * 2 + [False] * 8
    assert [step.number for step in seen] == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert [step.learning_rate for step in seen[2:]] == [learning_rate(recipe.training, n, 0.0) for n in range(1, 9)]
    assert run.progress.skipped == 2
    assert all(weight.isfinite().all() for weight in run.plain.parameters())


def test_s_amp_01_the_log_counts_them(toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Run.__init__

    def halved(run: Run, *arguments: Any) -> None:
        made(run, *arguments)
        run.scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    monkeypatch.setattr(Run, "__init__", halved)
    overflowing(monkeypatch, lambda number: number in (1, 5, 6))
    assert loop.train(toy_recipe, tmp_path / "out").steps == 12
    counted = [entry["skipped"] for entry in read_log(tmp_path / "out") if "loss" in entry]
    assert counted == [1, 3, 3, 3, 3, 3]  # after updates 2, 4, …


def test_gradients_that_always_overflow_end_the_run(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "OVERFLOWS", 6)
    run = Run(toy_recipe, prepare(toy_recipe), tmp_path)
    run.scaler = torch.amp.GradScaler("cpu")
    overflowing(monkeypatch, lambda number: number > 2)
    with pytest.raises(UserError, match=r"update 3: gradients have overflowed for 6 updates .*training.precision to bf16"):
        list(loop.steps(run))


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_s_amp_02_what_float16_cannot_hold(beams: int, dtype: torch.dtype) -> None:
    """S-AMP-02: a feed-forward layer that reaches 66,000 answers in bfloat16, and is refused in float16 with advice."""
    torch.manual_seed(1)
    model = models.find("t5").describe(vocab_size=13, num_layers=2, d_model=8, d_ff=16, num_heads=2, head_dim=4).build()
    model = model.eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "contract" in name:
                weight.mul_(3e4 / weight.abs().max())
    inputs, layout = torch.tensor([[3, 4, 5, 6]]), Layout.padded([4])
    assert all(t.abs().amax() < 65504 for t in model.parameters()), "the weights alone are not what overflows"
    options = Search(num_beams=beams, max_length=5)
    if dtype == torch.float16:
        with pytest.raises(UserError, match=r"float16 ends at 65,504, bfloat16 and float32 do not"):
            search(model.to(dtype), inputs, layout, options, bos=0, eos=1)
    else:
        (found,) = search(model.to(dtype), inputs, layout, options, bos=0, eos=1)
        assert math.isfinite(found[0].score)


def test_a_number_that_breaks_in_the_middle_of_an_answer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first token is sound, the third is NaN: no answer is given as if nothing were."""
    torch.manual_seed(1)
    model = models.find("transformer").describe(vocab_size=13, num_layers=1, d_model=8, d_ff=16, num_heads=2).build().eval()
    before, count = model.step, itertools.count(1)

    def step(tokens: torch.Tensor, state: Any, layout: Any = None) -> torch.Tensor:
        found = before(tokens, state, layout)
        return found * math.nan if next(count) == 3 else found

    monkeypatch.setattr(model, "step", step)
    for beams in (1, 3):
        count = itertools.count(1)
        with pytest.raises(UserError, match="NaN"):
            search(
                model, torch.tensor([[3, 4]]), Layout.padded([2]), Search(num_beams=beams, min_length=6, max_length=8), 2, 1
            )


def test_a_batch_with_nothing_to_predict_changes_nothing(toy_recipe: Recipe, tmp_path: Path) -> None:
    run = Run(toy_recipe, prepare(toy_recipe), tmp_path)
    batch = next(run.stream)
    assert batch.targets is not None
    empty = replace(batch, targets=torch.full_like(batch.targets, -100), target_tokens=0)
    loss, count = loop.forward_backward(run, [empty])
    assert (loss, count) == (0.0, 1)
    assert all(weight.grad is None or not weight.grad.any() for weight in run.plain.parameters())


def test_nothing_to_translate(translator_for: Callable[..., Any], shared: Any) -> None:
    translator = translator_for(shared)
    assert translator.translate([]) == []
    assert translator.translate([""]) == [""]
    assert translator.translate(["", "A dog", "  "])[::2] == ["", ""]


@pytest.mark.parametrize("asked", [{"suppress_tokens": (13,)}, {"first_token": 10**9}], ids=str)
def test_ids_that_the_model_has_not(asked: dict[str, Any]) -> None:
    torch.manual_seed(1)
    model = models.find("transformer").describe(vocab_size=13, num_layers=1, d_model=8, d_ff=16, num_heads=2).build().eval()
    with pytest.raises(UserError, match=r"names id \d+, the model has 13 ids"):
        search(model, torch.tensor([[3, 4]]), Layout.padded([2]), Search(num_beams=2, max_length=4, **asked), 2, 1)
