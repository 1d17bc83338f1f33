"""Which weights a finished model has."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard.text.corpus import Pair
from regard.training import finish, resume
from regard.training.loop import steps
from regard.training.prepare import prepare
from regard.training.recipe import Recipe, load_recipe
from regard.training.run import Run
from regard.training.tasks import translation


def run_of(recipe: Recipe, output: Path, best: list[tuple[float, int]], **training: object) -> Run:
    """Four updates, each saved; `best` is what evaluations are said to have found."""
    recipe = recipe.model_copy(update={"training": recipe.training.model_copy(update=training)})
    run = Run(recipe, prepare(recipe), output)
    for step in steps(run):
        run.progress.best = best
        run.save()
        if step.number == 4:
            return run
    raise AssertionError


def weight(output: Path, step: int) -> torch.Tensor:
    return load_file(resume.folder_of(output, step) / "model.safetensors")[NAME]


NAME = "model.shared.weight"


def chosen(run: Run) -> torch.Tensor:
    return run.plain.head.project.weight.detach()


def test_the_best_by_default(toy_recipe: Recipe, tmp_path: Path) -> None:
    run = run_of(toy_recipe, tmp_path, [(-1.5, 2)])
    assert "after update 2, the best by loss (1.500)" in finish.choose(run, print)
    assert torch.equal(chosen(run), weight(tmp_path, 2))


def test_the_mean_of_the_last(toy_recipe: Recipe, tmp_path: Path) -> None:
    run = run_of(toy_recipe, tmp_path, [(-1.5, 2)], average="last", average_count=2)
    assert "updates 3, 4" in finish.choose(run, print)
    assert torch.allclose(chosen(run), (weight(tmp_path, 3) + weight(tmp_path, 4)) / 2, atol=1e-7)


def test_the_mean_of_the_best(toy_recipe: Recipe, tmp_path: Path) -> None:
    run = run_of(toy_recipe, tmp_path, [(-1.0, 1), (-1.5, 3)], average="best", average_count=2)
    assert "updates 1, 3" in finish.choose(run, print)
    assert torch.allclose(chosen(run), (weight(tmp_path, 1) + weight(tmp_path, 3)) / 2, atol=1e-7)


def test_the_running_mean(toy_recipe: Recipe, tmp_path: Path) -> None:
    run = run_of(toy_recipe, tmp_path, [(-1.5, 2)], ema=0.5)
    assert "running mean" in finish.choose(run, print)
    tensors, _ = resume.read(resume.folder_of(tmp_path, 2))
    name = next(n for n, p in run.plain.named_parameters() if p is run.plain.head.project.weight)
    assert torch.equal(chosen(run), tensors[f"average/{name}"])


def test_without_evaluations_the_last(toy_recipe: Recipe, tmp_path: Path) -> None:
    run = run_of(toy_recipe, tmp_path, [])
    assert finish.choose(run, print) == "weights after update 4"


def test_a_translation_with_line_ends_is_one_line_of_the_file(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model with byte tokens may write them; line n of test.hyp belongs to test pair n all the same."""
    run = run_of(toy_recipe, tmp_path, [])
    run.prepared = replace(run.prepared, test_pairs=[Pair("a", "b", 1), Pair("c", "d", 2)])
    monkeypatch.setattr(translation, "judge", lambda *_, **__: (["x\ny\r\nz", "w"], {}))
    finish.finish(run, lambda _: None)
    assert (tmp_path / "test.hyp").read_text(encoding="utf-8") == "x y z\nw\n"


def test_an_estimate_of_quality_is_fitted_kept_and_drawn(toy: Path, tmp_path: Path) -> None:
    from regard.decoding.quality import checked
    from regard.translator import load

    texts = [(toy.parent / f"{name}.tsv").read_text(encoding="utf-8") for name in ("train", "valid", "test")]
    (toy.parent / "valid.tsv").write_text("".join(texts), encoding="utf-8")
    said: list[str] = []
    run = run_of(load_recipe(toy, ["evaluation.calibrate=true", "search.max_length=8"]), tmp_path / "out", [])
    finish.finish(run, said.append)
    told = json.loads((tmp_path / "out" / "regard.json").read_text(encoding="utf-8"))
    assert checked(told["quality"])["sentences"] == 52
    assert (tmp_path / "out" / finish.RELIABILITY).stat().st_size > 1000
    assert any("correlation with chrF" in line for line in said)
    [one] = load(tmp_path / "out").translate(["a b c"], details=True, confidence=True)
    assert 0 <= one.quality <= 100
