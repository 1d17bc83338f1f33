"""Every recipe that is not a translation, at toy size: it reads its data, learns for a few updates, and ends as a folder."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from regard.checkpoints.folders import load_model
from regard.text import made
from regard.training.journal import read_log
from regard.training.loop import train
from regard.training.recipe import load_recipe
from regard.training.recipe_files import names

TINY = ["model.num_layers=1", "model.d_model=16", "model.d_ff=16", "model.num_heads=2"]
SHORT = ["training.max_steps=24", "training.warmup_steps=1", "training.evaluate_every=24", "training.save_every=24"]
SHORT += ["training.log_every=4", "training.batch_tokens=600", "training.max_minutes=null", "training.threads=1"]
SHORT += [
    "data.max_pairs=120",
    "data.more=[shakespeare]",
    "evaluation.max_sentences=2",
    "search.max_length=4",
    "training.learning_rate=1e-2",
]
SHORTER = ["training.max_steps=8", "training.evaluate_every=8", "training.log_every=2"]
OWN = {"vit": ["training.batch_tokens=30"], "t5": ["model.head_dim=8"], "rnn": ["model.num_layers=1", "model.d_model=16"]}
PRETRAINED = ("english-bert", "english-roberta", "english-xlnet", "english-t5", "english-bart")
FIRST = [
    name for name in names() if name.startswith(("shakespeare-", "mnist-", "pythondocs-", "digits-")) or name == "docstrings"
]
SCRATCH = [name for name in names() if name.endswith("-scratch")]
THEN = [name for name in names() if f"{name}-scratch" in SCRATCH]


@pytest.fixture(autouse=True)
def places(data_root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for all, and few docstrings."""
    base = tmp_path_factory.getbasetemp() / "recipes"
    monkeypatch.setenv("REGARD_DATA", str(data_root))
    monkeypatch.setenv("REGARD_CACHE", str(base / "cache"))
    monkeypatch.chdir(tmp_path_factory.mktemp("here"))
    root = base / "modules"
    root.mkdir(parents=True, exist_ok=True)
    for number in range(60):
        text = " ".join(f"word{(number * at) % 17}" for at in range(20))
        code = f'def f():\n    """Give word{number % 7} and more.\n\n    {number} {text}\n    """\n'
        (root / f"m{number}.py").write_text(code, encoding="utf-8")
    plain = made.docstrings
    monkeypatch.setattr("regard.text.named.docstrings", lambda split: plain(split, [root]))


def tiny(name: str, *more: str) -> list[str]:
    """Overrides that make a recipe a matter of seconds."""
    recipe = load_recipe(name)
    size = [] if recipe.model.folder else [*TINY, *OWN.get(str(recipe.model.architecture), [])]
    if recipe.model.architecture == "rnn":
        size = OWN["rnn"]
    if recipe.model.architecture == "vit":
        size = [*size, *OWN["vit"]]
    vocabulary = [] if recipe.tokenizer.kind == "characters" else ["tokenizer.vocab_size=400"]
    return [*SHORT, *size, *vocabulary, *more]


def run(name: str, output: Path, *more: str) -> list[float]:
    """Train; the losses of the log. What is left is a folder that opens."""
    train(load_recipe(name, tiny(name, *more)), output)
    load_model(output)
    log = read_log(output)
    assert any("valid_loss" in entry for entry in log)
    return [entry["loss"] for entry in log if "loss" in entry]


SELDOM = {*SCRATCH, "shakespeare-dialogue-rnn"} - {"sst2-bert-scratch", "docstrings-t5-scratch"}
SELDOM |= {"english-roberta", "english-xlnet", "english-bart"}
"""Like another that is always run."""


def marked(names: list[str]) -> list[object]:
    return [pytest.param(name, marks=pytest.mark.slow) if name in SELDOM else name for name in names]


@pytest.mark.parametrize("name", marked([*FIRST, *SCRATCH]))
def test_a_recipe_from_scratch(name: str, tmp_path: Path) -> None:
    if name.startswith("digits"):
        pytest.importorskip("sklearn")
    if name.startswith("docstrings"):
        pytest.importorskip("rouge_score")
    losses = run(name, tmp_path / "out")
    assert all(map(math.isfinite, losses))
    assert min(losses[1:]) < losses[0] or losses[0] < 1  # of two classes so few updates tell nothing


@pytest.mark.parametrize("first", marked([*PRETRAINED]))
def test_pretraining_and_what_goes_on_from_it(first: str, tmp_path: Path) -> None:
    if first in ("english-t5", "english-bart"):
        pytest.importorskip("rouge_score")
    losses = run(first, tmp_path / "first", *SHORTER)
    assert min(losses[1:]) < losses[0]
    kind = first.partition("-")[2]
    following = [name for name in THEN if name.endswith(f"-{kind}")]
    assert following
    for name in following:
        losses = run(name, tmp_path / name, f"model.from={tmp_path / 'first'}", *SHORTER)
        assert all(map(math.isfinite, losses))


def test_every_recipe_of_another_task_is_run_here() -> None:
    others = {name for name in names() if load_recipe(name).task.kind != "translation" or load_recipe(name).model.folder}
    assert others <= {*FIRST, *SCRATCH, *THEN, *PRETRAINED}
