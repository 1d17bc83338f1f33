"""Checkpoints: whole or absent, found again, pruned without losing the best."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from regard.errors import UserError
from regard.training import resume


def make(output: Path, step: int, value: float = 1.0) -> Path:
    folder = resume.folder_of(output, step)
    tensors = {"optimizer.exp_avg/w": torch.full((3,), value)}
    resume.write(folder, lambda at: (at / "model.bin").write_bytes(b"weights"), tensors, {"progress": {"step": step}})
    return folder


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    folder = make(tmp_path, 120, 2.5)
    assert folder.name == "step-00000120"
    tensors, facts = resume.read(folder)
    assert tensors["optimizer.exp_avg/w"].tolist() == [2.5] * 3
    assert facts["progress"] == {"step": 120}
    assert resume.damage(folder) is None


def test_a_failure_while_writing_leaves_nothing_and_keeps_the_old(tmp_path: Path) -> None:
    folder = make(tmp_path, 10)

    def full(at: Path) -> None:
        (at / "half").write_bytes(b"x")
        raise OSError(28, "No space left on device")

    for step in (10, 20):
        with pytest.raises(OSError, match="No space left"):
            resume.write(resume.folder_of(tmp_path, step), full, {}, {})
    assert [f.name for f in (tmp_path / "checkpoints").iterdir()] == [folder.name]
    assert resume.damage(folder) is None


@pytest.mark.parametrize("kind", ["truncated", "flipped", "missing", "facts"])
def test_a_damaged_checkpoint_is_passed_over_and_said(tmp_path: Path, kind: str) -> None:
    make(tmp_path, 10)
    bad = make(tmp_path, 20)
    file = bad / (resume.FACTS if kind == "facts" else resume.TENSORS)
    data = bytearray(file.read_bytes())
    if kind == "missing":
        file.unlink()
    elif kind == "flipped":
        data[-1] ^= 1
        file.write_bytes(data)
    else:
        file.write_bytes(data[: len(data) // 2])
    said: list[str] = []
    assert resume.newest(tmp_path, said.append) == resume.folder_of(tmp_path, 10)
    assert len(said) == 1
    assert str(bad) in said[0]


def test_nothing_and_nothing_good(tmp_path: Path) -> None:
    assert resume.newest(tmp_path, print) is None
    (make(tmp_path, 10) / resume.TENSORS).unlink()
    with pytest.raises(UserError, match="all 1 checkpoints are damaged"):
        resume.newest(tmp_path, lambda text: None)


@pytest.mark.parametrize("keep", [2, 1])
def test_pruning_spares_the_best_and_the_newest(tmp_path: Path, keep: int) -> None:
    """S-RES-05: validation losses 1.0, 1.5, 1.6, 1.7, 1.8: the first is best, the fifth newest."""
    folders = [make(tmp_path, step) for step in (10, 20, 30, 40, 50)]
    kept = {10, *(50, 40)[:keep]}
    resume.prune(tmp_path, kept, 50)
    left = resume.found(tmp_path)
    assert left == [folders[0], *folders[-keep:]]
    assert all(resume.damage(folder) is None for folder in left)


def test_pruning_leaves_the_newest_good_one_when_later_ones_are_damaged(tmp_path: Path) -> None:
    """A run that went back to update 20 and wrote 25 keeps 25, though the damaged 30 has the higher number."""
    for step in (10, 20, 25, 30):
        make(tmp_path, step)
    (resume.folder_of(tmp_path, 30) / resume.TENSORS).unlink()
    resume.prune(tmp_path, {25}, 25)
    assert [resume.step_of(folder) for folder in resume.found(tmp_path)] == [25, 30]
    assert resume.newest(tmp_path, lambda text: None) == resume.folder_of(tmp_path, 25)


def test_every_flipped_bit_and_every_cut_is_seen(tmp_path: Path) -> None:
    folder = make(tmp_path, 10)
    for file in sorted(path for path in folder.iterdir()):
        whole = file.read_bytes()
        facts = resume.read(folder)[1]
        for place in range(0, len(whole), max(1, len(whole) // 97)):
            data = bytearray(whole)
            data[place] ^= 1 << place % 8
            file.write_bytes(data)
            if resume.damage(folder) is None:  # a bit of JSON's own spelling, or of a name that nobody asks for
                assert file.name == resume.FACTS
                assert {k: v for k, v in resume.read(folder)[1].items() if k in facts and k != "digest"} == {
                    k: v for k, v in facts.items() if k != "digest"
                }
            file.write_bytes(whole[:place])
            assert resume.damage(folder) is not None
        file.write_bytes(whole)
        assert resume.damage(folder) is None


def test_files_of_inner_folders_are_checked_too(tmp_path: Path) -> None:
    def save(at: Path) -> None:
        (at / "adapter").mkdir()
        (at / "adapter" / "weights").write_bytes(b"learned")

    folder = resume.folder_of(tmp_path, 10)
    resume.write(folder, save, {}, {})
    assert resume.damage(folder) is None
    (folder / "adapter" / "weights").write_bytes(b"learnet")
    assert resume.damage(folder) == "adapter/weights is not what was written"


def test_what_killed_saves_left_is_swept(tmp_path: Path) -> None:
    folder = make(tmp_path, 10)
    (folder.parent / ".step-00000020.partial").mkdir()
    (folder.parent / ".step-00000005.going").mkdir()
    (tmp_path / ".recipe.yaml.7.part").write_bytes(b"half")
    (tmp_path / ".mine").write_bytes(b"stays")
    (tmp_path.parent / f".{tmp_path.name}.17.new").mkdir()
    assert len(resume.sweep(tmp_path)) == 4
    assert not list(tmp_path.parent.glob(f".{tmp_path.name}*"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".mine", "checkpoints"]
    assert resume.found(tmp_path) == [folder]


def test_a_checkpoint_that_was_to_be_replaced_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after the old one was moved aside and before the new one had its place: the old one is still there."""
    folder = make(tmp_path, 10, 1.0)
    moved = os.replace

    def killed(source: Path, target: Path) -> None:
        if target == folder and "partial" in source.name:
            raise SystemExit
        moved(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(SystemExit):
        make(tmp_path, 10, 2.0)
    assert resume.found(tmp_path) == [folder]
    monkeypatch.undo()
    os.replace(folder, folder.with_name(f".{folder.name}.before"))  # what a kill leaves, for which nobody cleans up
    assert resume.found(tmp_path) == []
    resume.sweep(tmp_path)
    assert resume.newest(tmp_path, print) == folder
    assert resume.read(folder)[0]["optimizer.exp_avg/w"].tolist() == [1.0] * 3
    make(tmp_path, 10, 3.0)
    assert resume.read(folder)[0]["optimizer.exp_avg/w"].tolist() == [3.0] * 3
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_optimizer_state_goes_by_the_names_of_parameters() -> None:
    torch.manual_seed(0)
    models = [torch.nn.Linear(3, 2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [torch.optim.Adam(model.parameters(), fused=True) for model in models]

    def step(number: int) -> None:
        models[number](torch.ones(1, 3)).square().sum().backward()
        optimizers[number].step()
        optimizers[number].zero_grad()

    step(0)
    tensors = {key: value.clone() for key, value in resume.optimizer_tensors(models[0], optimizers[0]).items()}
    assert "optimizer.exp_avg/weight" in tensors
    models[1].load_state_dict(models[0].state_dict())
    resume.load_optimizer(models[1], optimizers[1], tensors)
    for number in (0, 1):
        step(number)
    assert torch.equal(models[0].weight, models[1].weight)


def test_random_states_come_back() -> None:
    states = {f"{key}.0": value for key, value in resume.random_tensors().items()}
    first = torch.rand(4)
    resume.load_random(states)
    assert torch.equal(first, torch.rand(4))
