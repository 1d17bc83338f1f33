"""Going on from a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.checkpoints.folders import load_model
from regard.errors import UserError
from regard.training.loop import train
from regard.training.prepare import prepare
from regard.training.recipe import Recipe, load_recipe
from regard.training.run import Run
from regard.training.start import family_of, start_of


def later(recipe: Recipe, folder: Path | str, **changes: Any) -> Recipe:
    """The same recipe going on from a folder."""
    model = type(recipe.model).model_validate({"from": str(folder), **changes.pop("model", {})})
    training = recipe.training.model_copy(update=changes)
    return recipe.model_copy(update={"model": model, "training": training})


def test_a_translation_goes_on_from_its_folder(toy_recipe: Recipe, tmp_path: Path) -> None:
    train(toy_recipe, tmp_path / "first")
    recipe = later(toy_recipe, tmp_path / "first", max_steps=2)
    prepared = prepare(recipe)
    run = Run(recipe, prepared, tmp_path / "probe")
    old, description, _ = load_model(tmp_path / "first")
    assert run.description == description
    assert all(torch.equal(a, b) for a, b in zip(run.plain.state_dict().values(), old.state_dict().values()))
    assert prepared.tokenizers.source.hash == prepare(toy_recipe).tokenizers.source.hash
    train(recipe, tmp_path / "second")
    assert load_model(tmp_path / "second")[1] == description


def test_arguments_may_change_what_has_no_weights(toy_recipe: Recipe, tmp_path: Path) -> None:
    train(toy_recipe, tmp_path / "first")
    recipe = later(toy_recipe, tmp_path / "first", model={"dropout": 0.45})
    run = Run(recipe, prepare(recipe), tmp_path / "probe")
    assert family_of(run.description)[1]["dropout"] == 0.45
    for model, said in (
        ({"d_ff": 64}, "d_ff would change the shape of weights"),
        ({"dropuot": 0.1}, "model.dropuot: .* has no such argument"),
    ):
        wrong = later(toy_recipe, tmp_path / "first", model=model)
        with pytest.raises(UserError, match=said):
            Run(wrong, prepare(wrong), tmp_path / "probe")


def test_a_head_is_not_made_where_none_is_needed(toy_recipe: Recipe, tmp_path: Path) -> None:
    train(toy_recipe, tmp_path / "first")
    recipe = later(toy_recipe, tmp_path / "first", model={"fresh_head": True})
    with pytest.raises(UserError, match="needs no other head"):
        Run(recipe, prepare(recipe), tmp_path / "probe")


def test_a_missing_folder_is_named(toy_recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.from: .*absent"):
        start_of(later(toy_recipe, tmp_path / "absent"))
    assert start_of(toy_recipe) is None


def test_lora_learns_resumes_and_leaves_a_merged_model(toy_recipe: Recipe, tmp_path: Path) -> None:
    """S-RES-01 with LoRA: stopped after 4 of 8 updates it goes on exactly."""
    from regard.checkpoints.adapters import load_adapter
    from regard.training.loop import steps

    train(toy_recipe, tmp_path / "first")
    lora = type(toy_recipe.training.lora)(rank=2, targets=["q", "v"], dropout=0.1)
    recipe = later(toy_recipe, tmp_path / "first", max_steps=8, lora=lora, save_every=4, freeze=["encoder.*"])
    train(recipe, tmp_path / "whole")
    broken = tmp_path / "broken"
    run = Run(recipe, prepare(recipe), broken)
    assert all(
        not p.requires_grad or (".updates." in n and n.startswith("decoder.")) for n, p in run.plain.named_parameters()
    )
    broken.mkdir()
    for step in steps(run):
        if step.number == 4:
            run.save()
        if step.number == 5:
            break
    train(recipe, broken, resumed=True)
    whole, again, first = (load_model(tmp_path / name)[0].state_dict() for name in ("whole", "broken", "first"))
    assert all(torch.equal(whole[name], again[name]) for name in whole)
    changed = {name for name in whole if not torch.equal(whole[name], first[name])}
    assert changed
    assert all(name.endswith(("attention.qkv.weight", "cross.q.weight", "cross.kv.weight")) for name in changed)
    base, _, _ = load_model(tmp_path / "first")
    load_adapter(tmp_path / "whole" / "adapter", base)
    merged, _, _ = load_model(tmp_path / "whole")
    ids = torch.tensor([[4, 5, 6]])
    torch.testing.assert_close(base.eval()(ids, ids).logits, merged(ids, ids).logits, rtol=1e-4, atol=1e-5)


def test_from_and_architecture_do_not_mix_when_recipes_are_laid_on_one_another(tmp_path: Path) -> None:
    base = "data: {train: a.tsv}\nmodel: {architecture: transformer, num_layers: 2}\ntraining: {max_steps: 3}\n"
    (tmp_path / "base.yaml").write_text(base, encoding="utf-8")
    (tmp_path / "fine.yaml").write_text("extends: base.yaml\nmodel: {from: runs/x, dropout: 0.2}\n", encoding="utf-8")
    (tmp_path / "twin.yaml").write_text("extends: fine.yaml\nmodel: {from: null, architecture: rnn}\n", encoding="utf-8")
    fine, twin = load_recipe(tmp_path / "fine.yaml"), load_recipe(tmp_path / "twin.yaml")
    assert (fine.model.folder, fine.model.architecture, fine.model.arguments) == ("runs/x", None, {"dropout": 0.2})
    assert (twin.model.folder, twin.model.architecture, twin.model.arguments) == (None, "rnn", {})
    over = load_recipe(tmp_path / "fine.yaml", ["model.from=runs/y"])
    assert (over.model.folder, over.model.arguments) == ("runs/y", {"dropout": 0.2})
