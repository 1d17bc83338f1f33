"""Finding recipes, laying one on top of another, and what paths in them are relative to."""

from __future__ import annotations

from pathlib import Path

import pytest

from regard.errors import UserError
from regard.training import recipe_files
from regard.training.recipe_files import gather, names

BASE = (
    "description: base\ndata: {train: a.tsv, clean: {max_ratio: 3}}\nmodel: {architecture: one, x: 1}\ntraining: {seed: 1}\n"
)


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_recipes_are_found_by_name_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "multi30k-en-fr" in names()
    assert gather("multi30k-en-fr").values["name"] == "multi30k-en-fr"
    path = write(tmp_path / "my recipe.yaml", BASE)
    assert gather(path).values["name"] == "my recipe"
    monkeypatch.chdir(tmp_path)
    assert gather("my recipe.yaml").values["name"] == "my recipe"


def test_recipes_inside_the_package_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the wheel, where the folder lies in the package."""
    write(tmp_path / "regard/recipes/only.yaml", BASE)
    monkeypatch.setattr(recipe_files, "__file__", str(tmp_path / "regard/training/recipe_files.py"))
    assert names() == ["only"]
    assert gather("only").values["training"] == {"seed": 1}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("multi30k-en-rf", "no recipe is named 'multi30k-en-rf'; did you mean multi30k-en-fr"),
        ("xyz", "no recipe is named 'xyz'; known: .*multi30k-en-fr"),
        ("no/such.yaml", "no/such.yaml: no such recipe file"),
    ],
)
def test_s_cli_07_a_missing_recipe_is_named(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        gather(name)


def test_extends_merges_sections_key_by_key(tmp_path: Path) -> None:
    write(tmp_path / "base.yaml", BASE)
    top = write(tmp_path / "sub/top.yaml", "extends: ../base.yaml\ndata: {clean: {max_words: 9}}\nmodel: {y: 2}\n")
    found = gather(top)
    assert found.values["data"]["clean"] == {"max_ratio": 3, "max_words": 9}
    assert found.values["model"] == {"architecture": "one", "x": 1, "y": 2}
    assert found.values["name"] == "top"
    assert "description" not in found.values
    assert "extends" not in found.values
    assert found.place(("training", "seed")).endswith("base.yaml:4")
    assert found.place(("model", "y")).endswith("top.yaml:3")


def test_another_architecture_starts_with_its_own_arguments(tmp_path: Path) -> None:
    write(tmp_path / "base.yaml", BASE)
    top = write(tmp_path / "top.yaml", "extends: base.yaml\nmodel: {architecture: two}\n")
    assert gather(top).values["model"] == {"architecture": "two"}
    found = gather(str(tmp_path / "base.yaml"), ["model.z=3", "model.architecture=two"])
    assert found.values["model"] == {"architecture": "two", "z": 3}


def test_a_circle_and_a_wrong_base_are_refused_with_their_line(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "# a\nextends: b.yaml\n")
    write(tmp_path / "b.yaml", "extends: a.yaml\n")
    with pytest.raises(UserError, match=r"b.yaml:1: extends goes round in a circle"):
        gather(str(tmp_path / "a.yaml"))
    with pytest.raises(UserError, match=r"c.yaml:1: extends: .*missing.yaml: no such recipe file"):
        gather(write(tmp_path / "c.yaml", "extends: ./missing.yaml\n"))
    with pytest.raises(UserError, match=r"d.yaml:1: extends names one recipe"):
        gather(write(tmp_path / "d.yaml", "extends: [a, b]\n"))


def test_paths_are_relative_to_the_file_or_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "data: {train: 'a.en,a.fr', valid: /abs/v.tsv, root: ~/data}\n"
    path = write(tmp_path / "sub/r.yaml", text)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    data = gather(path, ["data.test=t.tsv"]).values["data"]
    assert data["train"] == f"{tmp_path}/sub/a.en,{tmp_path}/sub/a.fr"
    assert data["valid"] == "/abs/v.tsv"
    assert data["root"] == f"{tmp_path}/home/data"
    assert data["test"] == f"{tmp_path}/t.tsv"


def test_a_comma_in_the_name_of_one_file_is_no_pair(tmp_path: Path) -> None:
    write(tmp_path / "a,b.tsv", "x\ty\n")
    assert gather(write(tmp_path / "r.yaml", "data: {train: 'a,b.tsv'}\n")).values["data"]["train"] == f"{tmp_path}/a,b.tsv"


@pytest.mark.parametrize("text", ["training.seed", "=3", "training..seed=1", ".seed=1", "false"])
def test_what_is_no_override_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"command line: .* is not an override; write key.path=value"):
        gather("multi30k-en-fr", [text])


def test_overrides_may_hold_equals_signs_lists_and_nothing() -> None:
    found = gather("multi30k-en-fr", ["data.train=a=b.tsv", "evaluation.metrics=[bleu, ter]", "data.test="]).values
    assert found["data"]["train"].endswith("/a=b.tsv")
    assert found["evaluation"]["metrics"] == ["bleu", "ter"]
    assert found["data"]["test"] is None
    with pytest.raises(UserError, match=r"command line: training\.seed: not valid YAML"):
        gather("multi30k-en-fr", ["training.seed=["])
