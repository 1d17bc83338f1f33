"""Claiming the output folder: refused, never emptied, and before anything is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.training.output import claim
from regard.training.recipe import Recipe, read_recipe


def recipe(width: int = 8, rate: str = "1e-3") -> Recipe:
    return read_recipe(
        f"data: {{train: a.tsv}}\nmodel: {{architecture: transformer, size: tiny, d_model: {width}}}\n"
        f"training: {{max_steps: 10, learning_rate: {rate}}}\n"
    )


def trained(folder: Path) -> dict[str, bytes]:
    """A folder as a training leaves it, and something of the user's."""
    (folder / "checkpoints/step-00000010").mkdir(parents=True)
    (folder / "checkpoints/step-00000010/model.safetensors").write_bytes(b"weights")
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    (folder / "recipe.yaml").write_text(recipe().to_yaml(), encoding="utf-8")
    return files(folder)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_missing_and_an_empty_folder_are_made_ready(tmp_path: Path) -> None:
    assert claim(tmp_path / "a/b", recipe()) == []
    assert claim(tmp_path / "a/b", recipe(), resumed=True) == []
    assert list((tmp_path / "a/b").iterdir()) == []


def test_s_cli_01_a_path_that_is_or_is_inside_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for path in (tmp_path / "file", tmp_path / "file/below"):
        for resume in (False, True):
            with pytest.raises(UserError, match="not a folder, or inside a file"):
                claim(path, recipe(), resume)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "x"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_s_cli_01_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shut").mkdir(mode=0o500)
    for path in (tmp_path / "shut", tmp_path / "shut/below"):
        with pytest.raises(UserError, match="cannot be written to: Permission denied"):
            claim(path, recipe())


def test_s_cli_01_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(UserError, match=rf"output {tmp_path}/new: cannot be written to: No space left on device"):
        claim(tmp_path / "new", recipe())


def test_s_cli_02_a_folder_with_other_things_is_refused_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    before = files(tmp_path)
    monkeypatch.chdir(tmp_path)
    for path in (Path("."), tmp_path):
        with pytest.raises(UserError, match="is not empty; choose a folder that is empty"):
            claim(path, recipe())
        with pytest.raises(UserError, match=r"holds notes.txt, but no recipe.yaml"):
            claim(path, recipe(), resumed=True)
    assert files(tmp_path) == before


def test_s_cli_03_an_existing_training_names_what_differs_and_the_ways_out(tmp_path: Path) -> None:
    before = trained(tmp_path)
    with pytest.raises(UserError) as caught:
        claim(tmp_path, recipe(width=16))
    for part in (str(tmp_path), "model.d_model: 8, now 16", "--resume", "another folder"):
        assert part in str(caught.value)
    with pytest.raises(UserError, match="with the same settings"):
        claim(tmp_path, recipe())
    with pytest.raises(UserError, match=r"cannot go on with another model: model.d_model: 8, now 16"):
        claim(tmp_path, recipe(width=16), resumed=True)
    assert files(tmp_path) == before


def test_a_resumed_run_may_change_how_it_trains_and_is_told_so(tmp_path: Path) -> None:
    before = trained(tmp_path)
    assert claim(tmp_path, recipe(), resumed=True) == []
    assert claim(tmp_path, recipe(rate="5e-4"), resumed=True) == ["training.learning_rate: 0.001, now 0.0005"]
    assert files(tmp_path) == before


def test_a_broken_saved_recipe_is_named_with_its_line(tmp_path: Path) -> None:
    trained(tmp_path)
    (tmp_path / "recipe.yaml").write_text("data: {train: a.tsv}\nmodle: 3\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"recipe.yaml:2: unknown key modle; did you mean model\?"):
        claim(tmp_path, recipe(), resumed=True)
