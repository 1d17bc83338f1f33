"""Saves over a finished folder, killed at every point."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch

from regard.checkpoints import folders, replace
from regard.checkpoints.folders import load_model, save_model
from regard.errors import UserError
from regard.models import transformer


def make(seed):
    torch.manual_seed(seed)
    return transformer.describe(vocab_size=23, num_layers=1, d_model=8, d_ff=16, num_heads=2).build().eval()


def answer(model):
    with torch.no_grad():
        return model(torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([[2, 9, 9], [2, 4, 0]])).logits


def killed_after(count, new, folder):
    """`put` in a process of its own that dies, as by `kill -9`, before it has renamed, linked or removed more than `count`
    times. Gives whether it died."""
    child = os.fork()
    if child == 0:
        left = [count]

        def counted(act):
            def run(*arguments, **named):
                if not left[0]:
                    os._exit(9)
                left[0] -= 1
                return act(*arguments, **named)

            return run

        os.replace, os.link, Path.unlink = counted(os.replace), counted(os.link), counted(Path.unlink)
        replace.put(new, folder, folders.CONFIG, folders._is_ours)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize("sharded", ["old", "new"])
def test_a_killed_save_leaves_no_mixture(tmp_path, sharded):
    """Wherever a save over a finished model is killed, the folder loads as the old model, or as the new one, or is refused,
    and then what the message names is the new model; another save clears up."""
    models = {"old": make(1), "new": make(2)}
    for name, model in models.items():
        save_model(tmp_path / name, model, shard_bytes=2_000 if name == sharded else 10**9)
    seen, died = [], True
    while died:
        folder = tmp_path / f"model-{len(seen)}"
        shutil.copytree(tmp_path / "old", folder)
        (folder / "notes.txt").touch()
        shutil.copytree(tmp_path / "new", tmp_path / f".{folder.name}.7.new")
        died = killed_after(len(seen), tmp_path / f".{folder.name}.7.new", folder)
        whole = tmp_path / f".{folder.name}.7.whole"
        if (folder / "config.json").is_file():
            found = answer(load_model(folder)[0])
            seen.append("old" if torch.equal(found, answer(models["old"])) else "new")
            assert torch.equal(found, answer(models[seen[-1]]))
        else:
            seen.append("refused")
            with pytest.raises(UserError, match="a save into it was cut off") as error:
                load_model(folder)
            assert f"{whole} holds the new model whole" in str(error.value)
            assert torch.equal(answer(load_model(whole)[0]), answer(models["new"]))
        assert (folder / "notes.txt").is_file()
    assert list(dict.fromkeys(seen)) == ["old", "refused", "new"]
    assert not whole.exists()
    folder = tmp_path / f"model-{seen.index('refused')}"
    save_model(folder, models["old"])
    assert torch.equal(answer(load_model(folder)[0]), answer(models["old"]))
    assert not list(tmp_path.glob(f".{folder.name}.*"))


def test_without_links_files_are_copied(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    save_model(tmp_path / "model", make(1))
    save_model(tmp_path / "model", make(2))
    assert torch.equal(answer(load_model(tmp_path / "model")[0]), answer(make(2)))
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
