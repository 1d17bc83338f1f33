"""The same recipe on one process and on several: equal losses, equal weights, checkpoints that either goes on from."""

from __future__ import annotations

import contextlib
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
from regard.training.loop import forward_backward
from regard.training.prepare import prepare
from regard.training.recipe import Recipe
from regard.training.run import Run

SCRIPT = Path(__file__).with_name("many_ranks.py")
FORKED = SCRIPT.with_name("forked.py")


def script() -> Any:
    spec = importlib.util.spec_from_file_location("many_ranks", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


VARIANTS = list(script().VARIANTS)


def forked(count: int, restarts: int, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
    """torchrun's agent, with processes that start at once."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen([sys.executable, str(FORKED), str(count), str(restarts), *arguments], env=environment, **more)


def torchrun(count: int, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.Popen([*command, *arguments], env=environment, **more)


def write_toys(folder: Path, pairs: Any) -> None:
    """Recipes with their data: pairs for a Transformer, for LoRA on a finished one, and texts for a mixture of experts."""
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
    low = {key: value for key, value in toy.items() if key != "tokenizer"}
    low["model"] = {"from": str(folder / "whole-1")}
    low["training"] = training | {"learning_rate": 3e-2, "lora": {"rank": 2, "targets": ["q", "expand"]}}
    for name, recipe in (("toy", toy), ("low", low), ("mixture", mixture)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")


def launched(folder: Path, count: int, *names: str) -> dict[str, Any]:
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
        path = folder / f"{'few' if names else 'ranks'}-{count}.json"
        if not path.exists():
            if count == 1:
                script().main(str(folder))
            else:
                process = forked(count, 0, str(SCRIPT), str(folder), *names, stderr=subprocess.PIPE)
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
    same_course(one, many, name)


def same_course(one: dict[str, Any], many: dict[str, Any], name: str) -> None:
    ours, theirs = one[name], many[name]
    close = {"half": 0.05, "mixture": 1e-3, "cut_mixture": 1e-3}.get(name, 2e-5)  # the last experts are balanced in parts
    for (loss, norm), (other, length) in zip(ours["seen"], theirs["seen"], strict=True):
        assert other == pytest.approx(loss, rel=close)
        assert length == pytest.approx(norm, rel=10 * close)
    assert theirs["squares"] == pytest.approx(ours["squares"], rel=close)
    assert ours["kinds"] == theirs["kinds"] == ["torch.float32"]  # what is held, bf16 or not


def test_s_dist_03_four_processes_are_one(one: dict[str, Any], folder: Path) -> None:
    """S-DIST-03: three batches of an update, shared by four, and weights cut in four pieces."""
    names = "accumulated", "cut_muon"
    found = launched(folder, 4, *names)
    assert len(found["ranks"]["each"]) == 4
    for name in names:
        same_course(one, found, name)


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


def test_early_stopping_averages_and_the_log_are_those_of_one_process(
    one: dict[str, Any], many: dict[str, Any], folder: Path
) -> None:
    for name in ("whole", "early"):
        assert many[name]["reason"] == one[name]["reason"]
        assert len(many[name]["log"]) == len(one[name]["log"])
        for ours, theirs in zip(one[name]["log"], many[name]["log"], strict=True):
            if name == "whole":  # among translations of a model that knows nothing two may be equally good
                ours, theirs = ({key: its[key] for key in its if key != "valid_chrf"} for its in (ours, theirs))
            assert theirs == pytest.approx(ours, rel=1e-3, abs=1e-6)
    assert "without a better chrf" in one["early"]["reason"]
    assert one["early"]["steps"] == 6
    same_model(folder / "early-1", folder / f"early-{many['count']}")


CHECKPOINTS = ["plain", "cut", "cut_everything", "cut_mixture", "cut_muon", "cut_lora", "half"]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_s_dist_04_one_process_goes_on_from_the_checkpoint_of_several(
    many: dict[str, Any], folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-DIST-04: all ranks wrote one folder, whole; weights (to the last bit, bf16 or not), optimiser and place are those of
    the run."""
    monkeypatch.setenv("REGARD_CACHE", str(folder / "cache"))
    saved = Path(many[name]["saved"])
    assert resume.damage(saved) is None
    assert (saved / resume.PIECES).is_dir() == (name != "plain")
    assert (saved / "adapter").is_dir() == (name == "cut_lora")
    recipe = script().recipe_of(folder, name)
    run = Run(recipe, prepare(recipe), folder / "on")
    run.load(saved)
    assert run.progress.step == script().STEPS
    masters = sum(float(p.detach().double().square().sum()) for p in run.plain.parameters())
    assert masters == pytest.approx(many[name]["masters"], rel=1e-9)
    moments = [state.get("exp_avg", state.get("momentum")) for state in run.optimizer.state.values()]
    assert len(moments) == sum(p.requires_grad for p in run.plain.parameters())
    assert all(bool((moment != 0).any()) for moment in moments)
    unbroken = Run(recipe, prepare(recipe), folder / "on")
    from itertools import islice

    from regard.training.loop import steps

    wanted = list(islice(steps(unbroken), script().STEPS + 2))[-2:]
    found = list(islice(steps(run), 2))
    for left, right in zip(found, wanted, strict=True):
        assert left.loss == pytest.approx(right.loss, rel=0.05 if name == "half" else 1e-4)


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


class Killer:
    """Kills a rank of an agent's at random moments: soon after the start, while a checkpoint is read or written, or in the
    midst of updates; always one of processes that it has not met yet."""

    def __init__(self, agent: int, output: Path, seed: int) -> None:
        self.agent, self.output, self.draw = agent, output, random.Random(seed)
        self.kills, self.goal, self.met = 0, 2, set[int]()

    def look(self) -> None:
        """Kill, if it is time."""
        children = Path(f"/proc/{self.agent}/task/{self.agent}/children").read_text().split()
        alive = set(map(int, children)) - self.met
        step = max((resume.step_of(folder) for folder in resume.found(self.output)), default=0)
        if len(alive) < 2 or step < self.goal:
            return
        time.sleep(self.draw.random() * (0.1 if self.goal else 1.0))
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.draw.choice(sorted(alive)), signal.SIGKILL)
            self.kills += 1
        self.met |= alive
        self.goal = step + self.draw.randint(1, 6) if self.draw.random() < 0.8 else 0


@pytest.mark.slow
def test_thirty_kills_lose_nothing(folder: Path, one: dict[str, Any], tmp_path: Path) -> None:
    """A rank is killed (-9) at random moments, 30 times; torchrun's agent starts all anew from the last checkpoint, and the
    model is that of a run that was never broken, to the last bit."""
    settings = ["training.max_steps=360", "training.save_every=2", "training.evaluate_every=60", "training.log_every=60"]
    line = ["regard", "train", str(folder / "toy.yaml"), *settings, "--resume"]
    whole = forked(2, 0, *line, f"output={tmp_path / 'whole'}", stderr=subprocess.DEVNULL)
    assert whole.wait(300) == 0
    restarts = ["--max-restarts=40", "--monitor-interval=0.2", "-m"]
    process = torchrun(2, *restarts, *line, f"output={tmp_path / 'broken'}", stderr=subprocess.DEVNULL)
    killer = Killer(process.pid, tmp_path / "broken", 1)
    while process.poll() is None:
        if killer.kills < 30:
            killer.look()
        time.sleep(0.02)
    assert process.returncode == 0
    assert killer.kills == 30
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken"))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("name", ["ddp-False", "ddp-True", "fsdp-False", "fsdp-True"])
def test_forecast_memory_is_within_a_tenth_of_the_measured(many: dict[str, Any], name: str) -> None:
    """By torch's own memory tracker on CPU ranks; buckets, gathered weights and what comes and goes included."""
    found = many["memory"][name]
    assert found["forecast"] == pytest.approx(found["peak"], rel=0.1)


def changed(recipe: Recipe, **training: Any) -> Recipe:
    return recipe.model_copy(update={"training": recipe.training.model_copy(update=training)})


@pytest.mark.parametrize("always", [False, True])
def test_activation_checkpointing_for_a_while(toy_recipe: Recipe, tmp_path: Path, always: bool) -> None:
    run = Run(changed(toy_recipe, activation_checkpointing=always), prepare(toy_recipe), tmp_path)
    blocks = parallel.blocks_of(run.plain)
    before = [vars(block).get("forward") for block in blocks]
    for wanted in (False, True):
        with parallel.checkpointing(run.plain, wanted):
            assert all(("forward" in vars(block)) == wanted for block in blocks)
        assert [vars(block).get("forward") for block in blocks] == before
    assert all((found is not None) == always for found in before)


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


@pytest.mark.parametrize("count", [1, 3])
def test_gradients_of_an_update_are_exchanged_once(
    toy_recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """All batches but the last keep theirs on their process."""
    run = Run(changed(toy_recipe, prefetch=0), prepare(toy_recipe), tmp_path)
    alone: list[bool] = []
    monkeypatch.setattr(parallel, "unsynchronised", lambda model: contextlib.nullcontext(alone.append(True)))
    backward = run.backward
    monkeypatch.setattr(run, "backward", lambda loss: (alone.append(False), backward(loss)))
    forward_backward(run, [next(run.stream) for _ in range(count)])
    assert alone == [True, False] * (count - 1) + [False]


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
