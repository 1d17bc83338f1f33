"""What a run holds, and how it goes through a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.errors import UserError
from regard.training.loop import steps
from regard.training.prepare import prepare
from regard.training.recipe import Recipe, load_recipe, read_recipe
from regard.training.run import Run


def with_training(recipe: Recipe, **training: object) -> Recipe:
    return recipe.model_copy(update={"training": recipe.training.model_copy(update=training)})


def test_a_run_comes_back_whole(toy_recipe: Recipe, tmp_path: Path) -> None:
    recipe = with_training(toy_recipe, ema=0.9)
    run = Run(recipe, prepare(recipe), tmp_path)
    for step in steps(run):
        if step.number == 3:
            break
    folder, random = run.save(), torch.get_rng_state()
    again = Run(recipe, prepare(recipe), tmp_path)
    again.load(folder)
    assert vars(again.progress) == vars(run.progress)
    assert again.stream.state_dict() == run.stream.state_dict()
    ours, theirs = run.plain.state_dict(), again.plain.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert run.average is not None
    assert again.average is not None
    assert all(torch.equal(run.average[name], again.average[name]) for name in run.average)
    assert torch.equal(torch.get_rng_state(), random)
    assert again.elapsed >= run.progress.elapsed


def test_the_moving_average_is_one(toy_recipe: Recipe, tmp_path: Path) -> None:
    recipe = with_training(toy_recipe, ema=0.75)
    run = Run(recipe, prepare(recipe), tmp_path)
    name, weight = next(iter(run.plain.named_parameters()))
    expected = weight.detach().clone()
    for step in steps(run):
        expected = 0.75 * expected + 0.25 * weight.detach()
        if step.number == 4:
            break
    assert run.average is not None
    assert torch.allclose(run.average[name], expected, atol=1e-7)
    before = weight.detach().clone()
    with run.in_use() as model:
        assert torch.allclose(dict(model.named_parameters())[name], expected, atol=1e-7)
        assert not model.training
    assert torch.equal(weight, before)


def test_an_average_that_was_not_kept_is_refused(toy_recipe: Recipe, tmp_path: Path) -> None:
    run = Run(toy_recipe, prepare(toy_recipe), tmp_path)
    folder = run.save()
    later = Run(with_training(toy_recipe, ema=0.9), prepare(toy_recipe), tmp_path)
    with pytest.raises(UserError, match=r"training\.ema is set, but the run so far was made without it"):
        later.load(folder)


def test_the_recipe_is_noted(toy_recipe: Recipe, tmp_path: Path) -> None:
    run = Run(toy_recipe, prepare(toy_recipe), tmp_path)
    run.note_recipe()
    assert read_recipe((tmp_path / "recipe.yaml").read_text(encoding="utf-8")) == toy_recipe


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has fp16")
def test_half_precision_without_a_gpu_is_refused(toy_recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"training\.precision: fp16 needs a GPU; use fp32"):
        Run(with_training(toy_recipe, precision="fp16"), prepare(toy_recipe), tmp_path)


def test_bf16_trains_with_weights_in_fp32(toy_recipe: Recipe, tmp_path: Path) -> None:
    run = Run(with_training(toy_recipe, precision="bf16"), prepare(toy_recipe), tmp_path)
    losses = []
    for step in steps(run):
        losses.append(step.loss)
        if step.number == 3:
            break
    assert all(loss == loss for loss in losses)
    assert {p.dtype for p in run.plain.parameters()} == {torch.float32}


def test_a_model_larger_than_the_memory_is_refused(toy: Path, tmp_path: Path) -> None:
    recipe = load_recipe(toy, ["model.d_model=400000"])
    with pytest.raises(UserError, match="model: is too large for this machine's memory"):
        Run(recipe, prepare(recipe), tmp_path)


def test_updates_of_a_training_open_by_themselves(toy: Path, tmp_path: Path) -> None:
    """The folder `adapter` of a finished training with LoRA is the finished model."""
    import regard
    from regard.training.loop import train

    train(load_recipe(toy), tmp_path / "base")
    settings = [f"model.from={tmp_path / 'base'}", "training.lora.rank=2", "training.learning_rate=0.1"]
    train(load_recipe(toy, settings), tmp_path / "out")
    whole, alone = regard.load(tmp_path / "out"), regard.load(tmp_path / "out" / "adapter")
    texts = ["a b c", "d e", "f a b c"]
    assert alone.translate(texts) == whole.translate(texts)
    assert alone.meta["scores"] == whole.meta["scores"]
    ids = torch.tensor([[5, 6, 7, 3]])
    torch.testing.assert_close(alone.model(ids, ids).logits, whole.model(ids, ids).logits, rtol=1e-5, atol=1e-5)
    base = regard.load(tmp_path / "base")
    assert not torch.allclose(base.model(ids, ids).logits, whole.model(ids, ids).logits, atol=1e-3)
