"""Disks that are full, read-only or gone while a training writes: said, survived, gone on with."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from regard import files, models
from regard.batches import Batch
from regard.checkpoints.folders import save_model
from regard.errors import UserError
from regard.training import loop, resume
from regard.training.journal import read_log
from regard.training.output import claim
from regard.training.recipe import Recipe
from regard.training.run import Run
from regard.training.validate import Look


def same(left: Path, right: Path) -> bool:
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (left, right))
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


TINY: dict[str, Any] = {"vocab_size": 13, "num_layers": 1, "d_model": 8, "d_ff": 16, "num_heads": 2}


@contextmanager
def room(most: int) -> Iterator[Callable[[], None]]:
    """No file may be larger than so many bytes, as on a full disk; gives what ends that."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def at(monkeypatch: pytest.MonkeyPatch, number: int, act: Callable[[Run], None]) -> None:
    """Do something in the update after so many."""
    before = loop.forward_backward

    def acting(run: Run, group: list[Batch]) -> tuple[float, int]:
        if run.progress.step == number:
            act(run)
        return before(run, group)

    monkeypatch.setattr(loop, "forward_backward", acting)


@pytest.mark.parametrize("most", [8000, 35_000], ids=["model", "optimiser"])
def test_a_disk_that_is_full_for_a_while(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], most: int
) -> None:
    """The operating system refuses the bytes: the checkpoints of updates 4 and 8 are not written, that is said, nothing half
    written stays, and once there is room the run ends as any other."""
    loop.train(toy_recipe, tmp_path / "whole")
    sizes = {p.name: p.stat().st_size for p in resume.found(tmp_path / "whole")[-1].iterdir()}
    assert 8000 < sizes["model.safetensors"] < 35_000 < sizes["training.safetensors"], "choose other limits"
    capsys.readouterr()
    out = tmp_path / "out"
    left: list[str] = []
    with room(most) as end:

        def freed(run: Run) -> None:
            left.extend(p.name for p in (out / "checkpoints").iterdir())
            end()

        at(monkeypatch, 9, freed)
        loop.train(toy_recipe, out)
    said = capsys.readouterr().err
    assert left == []
    assert "cannot write the checkpoint of update 4" in said
    assert "File too large" in said
    assert same(tmp_path / "whole", out)


def test_a_disk_full_at_the_end_loses_no_checkpoint(toy_recipe: Recipe, tmp_path: Path) -> None:
    """The finished model does not fit: one line says so, and --resume writes it once there is room."""
    loop.train(toy_recipe, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole" / "checkpoints", tmp_path / "out" / "checkpoints")
    with room(8000), pytest.raises(UserError, match=r"cannot write the model \(File too large\)"):
        loop.train(toy_recipe, tmp_path / "out", resumed=True)
    assert not (tmp_path / "out" / "config.json").exists()
    loop.train(toy_recipe, tmp_path / "out", resumed=True)
    assert same(tmp_path / "whole", tmp_path / "out")


def test_the_best_stays_the_best_where_the_disk_refused_a_better_one(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluations after updates 6 and 12; the second is better, but cannot be written: the first is what the run ends as."""
    values = iter([-2.0, -1.0])
    monkeypatch.setattr(Look, "value", lambda its, monitor: next(values))
    before = resume.write

    def full(folder: Path, *arguments: Any) -> None:
        if folder.name == "step-00000012":
            raise OSError(errno.ENOSPC, "No space left on device")
        before(folder, *arguments)

    monkeypatch.setattr(resume, "write", full)
    loop.train(toy_recipe, tmp_path / "out")
    best = load_file(resume.folder_of(tmp_path / "out", 6) / "model.safetensors")
    mine = load_file(tmp_path / "out" / "model.safetensors")
    assert all(torch.equal(best[name], mine[name]) for name in best)


def test_a_log_that_cannot_be_written_is_written_later(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def blocked(run: Run) -> None:
        (tmp_path / "out" / "log.jsonl").rename(tmp_path / "log")
        (tmp_path / "out" / "log.jsonl").mkdir()

    def freed(run: Run) -> None:
        (tmp_path / "out" / "log.jsonl").rmdir()
        (tmp_path / "log").rename(tmp_path / "out" / "log.jsonl")

    at(monkeypatch, 3, blocked)
    at(monkeypatch, 9, freed)
    loop.train(toy_recipe, tmp_path / "out")
    assert "the lines are kept for the next try" in capsys.readouterr().err
    assert [entry["step"] for entry in read_log(tmp_path / "out")] == [2, 4, 6, 6, 8, 10, 12, 12]


def test_a_folder_that_is_gone_is_made_anew(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody deletes the output in the middle: said, and the run ends as an unbroken one but for the log's beginning."""
    loop.train(toy_recipe, tmp_path / "whole")
    at(monkeypatch, 5, lambda run: shutil.rmtree(tmp_path / "out"))
    loop.train(toy_recipe, tmp_path / "out")
    assert "is gone; it is made anew" in capsys.readouterr().err
    assert same(tmp_path / "whole", tmp_path / "out")
    assert claim(tmp_path / "out", toy_recipe, resumed=True) == []
    assert loop.train(toy_recipe, tmp_path / "out", resumed=True).steps == 12


def test_s_cli_01_a_read_only_folder(toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S-CLI-01: before the first update, in one line. (The owner of all files may write anywhere: the refusal is played.)"""

    def refused(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("regard.training.output.tempfile.TemporaryFile", refused)
    with pytest.raises(UserError, match="cannot be written to: Read-only file system"):
        claim(tmp_path / "out", toy_recipe)


def as_nobody(work: Callable[[], None]) -> str:
    """What some work raises in a process that may write nowhere but where all may: the owner of all files may everywhere."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = "nothing"
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            work()
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A folder that everybody may enter, unlike those of pytest."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def test_s_cli_01_a_folder_that_is_really_read_only(toy_recipe: Recipe, open_to_all: Path) -> None:
    """S-CLI-01: said in one line by whoever wants to write, and what was there stays as it was."""
    out = open_to_all / "out"
    checkpoint = resume.folder_of(out, 1)
    save_model(
        open_to_all / "model", models.find("transformer").describe(**TINY).build()
    )  # all that it needs is imported now
    resume.write(checkpoint, lambda at: (at / "a").write_bytes(b"a") and None, {"w": torch.ones(2)}, {"progress": {}})
    files.write_text(out / "kept", "old")
    for path in (out, out / "checkpoints", checkpoint):
        path.chmod(0o555)
    assert as_nobody(lambda: claim(open_to_all / "new", toy_recipe) and None) == (
        f"UserError: output {open_to_all / 'new'}: cannot be written to: Permission denied"
    )
    assert "Permission denied" in as_nobody(lambda: files.write_text(out / "kept", "new"))
    again = lambda: resume.write(resume.folder_of(out, 2), lambda at: None, {"w": torch.ones(2)}, {"progress": {}})  # noqa: E731
    assert as_nobody(again).startswith("PermissionError")
    model = models.find("transformer").describe(**TINY).build()
    assert "cannot write the model (Permission denied)" in as_nobody(lambda: save_model(out, model))
    assert resume.newest(out, print) == checkpoint
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-00000001"]
    assert (out / "kept").read_text(encoding="utf-8") == "old"


def test_two_trainings_do_not_share_a_folder(toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    def second(run: Run) -> None:
        with pytest.raises(UserError, match="another training is writing to it") as refusal:
            loop.train(toy_recipe, tmp_path / "out", resumed=True)
        said.append(str(refusal.value))

    at(monkeypatch, 5, second)
    loop.train(toy_recipe, tmp_path / "out")
    assert len(said) == 1
    assert not list((tmp_path / "out").glob(".*"))


def test_what_a_killed_save_left_is_taken_away(toy_recipe: Recipe, tmp_path: Path) -> None:
    """A start that was cut off before the recipe stood there is begun again; what lies about half written goes."""
    out = tmp_path / "out"
    (out / "checkpoints" / ".step-00000004.partial").mkdir(parents=True)
    (out / ".recipe.yaml.17.part").write_bytes(b"na")
    (out / "checkpoints" / ".step-00000002.going").mkdir()
    assert claim(out / "new", toy_recipe, resumed=True) == []
    shutil.rmtree(out / "new")
    shutil.move(out / "checkpoints", tmp_path / "kept")
    assert claim(out, toy_recipe, resumed=True) == []
    shutil.move(tmp_path / "kept", out / "checkpoints")
    loop.train(toy_recipe, out, resumed=True)
    assert not list(out.rglob(".*"))


def test_whole_files_where_nothing_fits(tmp_path: Path) -> None:
    files.write_text(tmp_path / "a", "old")
    with room(10), pytest.raises(OSError, match="File too large"):
        files.write_text(tmp_path / "a", "new" * 100)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "old")]
