"""The same recipe on one process and on several: equal losses, equal weights, checkpoints that either goes on from."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from filelock import FileLock
from safetensors.torch import load_file
from torch import nn

from regard.errors import UserError
from regard.training import parallel, resume
from regard.training.prepare import prepare
from regard.training.recipe import Recipe
from regard.training.run import Run

SCRIPT = Path(__file__).with_name("many_ranks.py")


def script() -> Any:
    spec = importlib.util.spec_from_file_location("many_ranks", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


VARIANTS = list(script().VARIANTS)


def torchrun(count: int, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen([*command, *arguments], env=environment, **more)


def write_toys(folder: Path, pairs: Any) -> None:
    """Two recipes with their data: pairs for a Transformer, texts for a mixture of experts."""
    for name, count, seed in (("train", 40, 1), ("valid", 6, 2), ("test", 6, 3)):
        lines = pairs(count, seed)
        (folder / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in lines), encoding="utf-8")
        (folder / f"{name}.txt").write_text("".join(f"{a}\n" for a, _ in lines), encoding="utf-8")
    training = {
        "max_steps": 8,
        "batch_tokens": 40,
        "learning_rate": 3e-3,
        "warmup_steps": 2,
        "schedule": "linear",
        "save_every": 4,
        "evaluate_every": 4,
        "log_every": 2,
        "threads": 1,
        "device": "cpu",
    }
    toy = {
        "data": {"source": "xx", "target": "yy", "train": "train.tsv", "valid": "valid.tsv", "test": "test.tsv"},
        "tokenizer": {"kind": "words", "vocab_size": 32},
        "model": {"architecture": "transformer", "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 2},
        "training": training,
        "search": {"num_beams": 2},
        "evaluation": {"max_sentences": 4, "samples": 1, "metrics": ["chrf"]},
    }
    experts = {"architecture": "mixtral", "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 2, "num_kv_heads": 1}
    mixture = {
        "task": {"kind": "language"},
        "data": {"source": "xx", "train": "train.txt", "valid": "valid.txt", "max_length": 16},
        "tokenizer": {"kind": "words", "vocab_size": 32},
        "model": experts,
        "training": training,
    }
    for name, recipe in (("toy", toy), ("mixture", mixture)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")


def launched(folder: Path, count: int) -> dict[str, Any]:
    """What many_ranks.py found with so many processes, run once whatever number of test workers ask."""
    with FileLock(folder / "lock"):
        if not (folder / "toy.yaml").exists():
            from importlib.util import module_from_spec, spec_from_file_location

            spec = spec_from_file_location("toys", Path(__file__).with_name("conftest.py"))
            assert spec is not None
            assert spec.loader is not None
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            write_toys(folder, module.pairs)
        os.environ["REGARD_CACHE"] = str(folder / "cache")
        path = folder / f"ranks-{count}.json"
        if not path.exists():
            if count == 1:
                script().main(folder)
            else:
                process = torchrun(count, str(SCRIPT), str(folder), stderr=subprocess.PIPE)
                told = process.communicate(timeout=600)[1]
                assert process.returncode == 0, told.decode()[-4000:]
        return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    found = base / "many-ranks"
    found.mkdir(exist_ok=True)
    return found


@pytest.fixture(scope="session")
def one(folder: Path) -> dict[str, Any]:
    return launched(folder, 1)


@pytest.fixture(scope="session", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def many(one: dict[str, Any], folder: Path, request: pytest.FixtureRequest) -> dict[str, Any]:
    return launched(folder, request.param) | {"count": request.param}


def test_ranks_agree_on_what_one_decides(many: dict[str, Any]) -> None:
    count = many["count"]
    for number, found in enumerate(many["ranks"]["each"]):
        assert found["total"] == [count, sum(range(count))]
        assert found["spread"] == [0, 2, 4, 6, 8, 10, 12]
        assert found["few"] == [6]
        assert found["first"] == "rank 0"
        assert found["turn"] == number


@pytest.mark.parametrize("name", VARIANTS)
def test_s_dist_03_losses_and_weights_are_those_of_one_process(one: dict[str, Any], many: dict[str, Any], name: str) -> None:
    """S-DIST-03: the same global batches, of batches with different token counts, give the same updates, however they are
    shared and accumulated, under DDP and FSDP2, with experts and tied embeddings."""
    ours, theirs = one[name], many[name]
    close = {"half": 0.05, "mixture": 1e-3, "cut_mixture": 1e-3}.get(name, 2e-5)  # the last experts are balanced in parts
    for (loss, norm), (other, length) in zip(ours["seen"], theirs["seen"], strict=True):
        assert other == pytest.approx(loss, rel=close)
        assert length == pytest.approx(norm, rel=10 * close)
    assert theirs["squares"] == pytest.approx(ours["squares"], rel=close)


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "half"])
def test_s_dist_02_evaluation_does_not_depend_on_the_number_of_processes(
    one: dict[str, Any], many: dict[str, Any], name: str
) -> None:
    """S-DIST-02: each validation sentence counts once; translations come back in order."""
    close = 1e-3 if "mixture" in name else 2e-5
    assert many[name]["loss"] == pytest.approx(one[name]["loss"], rel=close)
    assert [sample[0] for sample in many[name]["samples"]] == [sample[0] for sample in one[name]["samples"]]


def test_a_whole_run_ends_as_the_same_model(one: dict[str, Any], many: dict[str, Any], folder: Path) -> None:
    assert many["whole"]["steps"] == one["whole"]["steps"] == 8
    assert many["whole"]["best"] == pytest.approx(one["whole"]["best"], rel=1e-4)
    same_model(folder / "whole-1", folder / f"whole-{many['count']}")
    assert (folder / f"whole-{many['count']}" / "test.hyp").is_file()


@pytest.mark.parametrize("name", ["plain", "cut", "cut_everything", "cut_mixture"])
def test_s_dist_04_one_process_goes_on_from_the_checkpoint_of_several(
    many: dict[str, Any], folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-DIST-04: all ranks wrote one folder, whole; weights, optimiser and place are those of the run."""
    monkeypatch.setenv("REGARD_CACHE", str(folder / "cache"))
    saved = Path(many[name]["saved"])
    assert resume.damage(saved) is None
    assert (saved / resume.PIECES).is_dir() == name.startswith("cut")
    recipe = script().recipe_of(folder, name)
    run = Run(recipe, prepare(recipe), folder / "on")
    run.load(saved)
    assert run.progress.step == script().STEPS
    moments = [state["exp_avg"] for state in run.optimizer.state.values()]
    assert len(moments) == len(list(run.plain.parameters()))
    assert all(bool((moment != 0).any()) for moment in moments)
    unbroken = Run(recipe, prepare(recipe), folder / "on")
    from itertools import islice

    from regard.training.loop import steps

    wanted = list(islice(steps(unbroken), script().STEPS + 2))[-2:]
    found = list(islice(steps(run), 2))
    for left, right in zip(found, wanted, strict=True):
        assert left.loss == pytest.approx(right.loss, rel=1e-4)


def test_several_processes_go_on_from_the_checkpoint_of_one(many: dict[str, Any], folder: Path) -> None:
    """A changed number of ranks: 8 updates by one, 4 more under FSDP2, and the model of 12 by one."""
    same_model(folder / "unbroken", folder / f"broken-{many['count']}")


def same_model(left: Path, right: Path) -> None:
    """Equal but for rounding, and for the biases of keys: softmax takes away what they add, so their gradient is noise."""
    ours, theirs = (load_file(one / "model.safetensors") for one in (left, right))
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert "k_proj.bias" in name or torch.allclose(ours[name], theirs[name], atol=1e-6), name


def test_s_dist_05_one_process_fails_and_all_end(folder: Path, one: dict[str, Any], tmp_path: Path) -> None:
    """S-DIST-05: an error in process 1 at update 3 ends both within a minute, and the error that is shown is that one."""
    code = (
        "import sys; from regard import cli; from regard.training import ranks, run\n"
        "update = run.Run.update\n"
        "def broken(self):\n"
        "    if ranks.rank() == 1 and self.progress.step == 2: raise RuntimeError('line 17 is bad')\n"
        "    return update(self)\n"
        "run.Run.update = broken\n"
        f"sys.exit(cli.main(['train', {str(folder / 'toy.yaml')!r}, 'output={tmp_path / 'out'}']))\n"
    )
    (tmp_path / "broken.py").write_text(code, encoding="utf-8")
    began = time.monotonic()
    process = torchrun(2, str(tmp_path / "broken.py"), stderr=subprocess.PIPE)
    told = process.communicate(timeout=120)[1].decode()
    assert process.returncode != 0
    assert time.monotonic() - began < 120
    assert "line 17 is bad" in told


@pytest.mark.slow
def test_thirty_kills_lose_nothing(folder: Path, one: dict[str, Any], tmp_path: Path) -> None:
    """A rank is killed (-9) at random moments, 30 times; torchrun starts all anew from the last checkpoint, and the model
    is that of a run that was never broken, to the last bit."""
    settings = ["training.max_steps=400", "training.save_every=5", "training.evaluate_every=50", "training.patience=0"]
    line = ["-m", "regard", "train", str(folder / "toy.yaml"), *settings, "--resume"]
    whole = torchrun(2, *line, f"output={tmp_path / 'whole'}", stderr=subprocess.DEVNULL)
    assert whole.wait(600) == 0
    draw = random.Random(1)
    process = torchrun(
        2, "--max-restarts=40", "--monitor-interval=0.2", *line, f"output={tmp_path / 'broken'}", stderr=subprocess.DEVNULL
    )
    kills, last = 0, ""
    while process.poll() is None:
        newest = next(iter(resume.found(tmp_path / "broken")[-1:]), None)
        if kills < 30 and newest is not None and newest.name != last:
            time.sleep(draw.random() * 0.5)
            workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            if len(workers) == 2:
                os.kill(int(draw.choice(workers)), signal.SIGKILL)
                kills, last = kills + 1, newest.name
        time.sleep(0.05)
    assert process.returncode == 0
    assert kills == 30
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("name", ["ddp-False", "ddp-True", "fsdp-False", "fsdp-True"])
def test_forecast_memory_is_within_a_tenth_of_the_measured(many: dict[str, Any], name: str) -> None:
    """By torch's own memory tracker on CPU ranks; buckets, gathered weights and what comes and goes included."""
    found = many["memory"][name]
    assert found["forecast"] == pytest.approx(found["peak"], rel=0.1)


def changed(recipe: Recipe, **training: Any) -> Recipe:
    return recipe.model_copy(update={"training": recipe.training.model_copy(update=training)})


def test_activation_checkpointing_changes_no_gradient(toy_recipe: Recipe, tmp_path: Path) -> None:
    """Dropout included: the second pass draws the same masks."""
    from regard.training.plan import saved_bytes

    found, kept = [], []
    for again in (False, True):
        recipe = changed(toy_recipe, activation_checkpointing=again, prefetch=0)
        run = Run(recipe, prepare(recipe), tmp_path)
        batch = next(run.stream)
        run.model(batch).backward()
        found.append([p.grad for p in run.plain.parameters()])
        kept.append(saved_bytes(run.plain, lambda run=run, batch=batch: run.model(batch)))
    assert all(torch.allclose(left, right, atol=1e-6) for left, right in zip(*found, strict=True))
    assert kept[1] < kept[0]


def test_weights_that_a_task_leaves_out_are_found(toy_recipe: Recipe, tmp_path: Path) -> None:
    run = Run(changed(toy_recipe, prefetch=0), prepare(toy_recipe), tmp_path)
    batch = next(run.stream)
    assert parallel.uses_all(run.plain, batch)
    run.plain.decoder.unread = nn.Linear(2, 2)
    assert not parallel.uses_all(run.plain, batch)
    assert all(p.grad is None for p in run.plain.parameters())


def test_a_model_without_blocks_cannot_compute_them_anew(toy_recipe: Recipe, tmp_path: Path) -> None:
    class Flat(nn.Module):
        encoder = decoder = None

    with pytest.raises(UserError, match=r"training\.activation_checkpointing: this model has no blocks"):
        parallel.checkpoint_activations(Flat())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"parallel": "none"}, "there are 3: choose ddp or fsdp"),
        ({"parallel": "fsdp", "optimizer": "muon"}, "muon turns whole matrices"),
        ({"parallel": "fsdp", "precision": "fp16"}, "choose bf16"),
        ({"parallel": "fsdp", "batch_tokens": "auto"}, "give a number"),
    ],
)
def test_what_cannot_be_cut_is_refused(
    toy_recipe: Recipe, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], match: str
) -> None:
    monkeypatch.setattr(parallel.ranks, "world", lambda: 3)
    with pytest.raises(UserError, match=match):
        parallel.kind_of(changed(toy_recipe, **settings).training)
    assert parallel.kind_of(toy_recipe.training) == "ddp"
