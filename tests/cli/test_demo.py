"""`regard demo`: its whole way at toy size, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.cli import demo, main
from regard.text.grammar import sentences

TOY = [
    "training.max_steps=2", "training.batch_tokens=300", "training.threads=1", "data.max_pairs=300",
    "model.num_layers=1", "model.d_model=16", "model.d_ff=32", "model.num_heads=2", "evaluation.max_sentences=4",
    "search.max_length=8", "tokenizer.vocab_size=300", "tokenizer.target_vocab_size=300",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("pair", ["en-fr", "en-zh"])
def test_the_whole_way(pair: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, path = tmp_path / "model", tmp_path / "demo.json"
    assert main(["demo", *TOY, "--pair", pair, "--output", str(folder), "--json", str(path)]) == 0
    said = json.loads(path.read_text(encoding="utf-8"))
    assert set(said) == {"folder", "train_seconds", "exact_match", "bleu", "chrf", "samples"}
    assert said["folder"] == str(folder)
    assert said["train_seconds"] > 0
    assert all(0 <= said[name] <= 100 for name in ("exact_match", "bleu", "chrf"))
    unseen = {one.source: one.target for one in sentences(pair, 500, split="test")}
    assert len(said["samples"]) == 5
    for one in said["samples"]:
        assert set(one) == {"source", "translation", "reference"}
        assert unseen[one["source"]] == one["reference"]
    shown = capsys.readouterr().out
    assert all(one["source"] in shown and one["translation"] in shown for one in said["samples"])
    assert f"regard translate {folder}" in shown
    assert (folder / "model.safetensors").is_file()
    assert "regard" in (folder / "README.md").read_text(encoding="utf-8")


def test_settings_of_the_pair_and_of_the_user_reach_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[Any, Path]] = []

    def train(recipe: Any, output: Path) -> None:
        asked.append((recipe, output))
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.training.loop.train", train)
    assert main(["demo", "--pair", "en-zh", "training.seed=7"]) == 130
    assert main(["demo", "--pair", "en-zh"]) == 130
    (recipe, first), (_, second) = asked
    assert (recipe.data.name, recipe.data.target, recipe.tokenizer.target_kind) == ("grammar-en-zh", "zh", "characters")
    assert recipe.training.seed == 7
    assert recipe.training.max_minutes <= 2
    assert (first, second) == (Path("runs/demo-en-zh"), Path("runs/demo-en-zh-2"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pair", "en-de"], "--pair: no grammar for 'en-de'; there are en-fr, en-zh"),
        (["training.max_stops=3"], "training.max_stops"),
        (["--output", "full"], "full is not empty"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine.txt").write_text("mine", encoding="utf-8")
    assert main(["demo", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == ["full"]
    assert [path.name for path in full.iterdir()] == ["mine.txt"]


def test_a_wrong_translation_is_shown_beside_the_right_one() -> None:
    sample = {"source": "The owl sleeps.", "translation": "L'hibou dort.", "reference": "Le hibou dort."}
    right = {"source": "She sings.", "translation": "Elle chante.", "reference": "Elle chante."}
    document = {
        "folder": "runs/x", "train_seconds": 100.4, "exact_match": 98.6, "bleu": 99.5, "chrf": 99.7,
        "samples": [sample, right],
    }  # fmt: skip
    shown = demo.report(document, "PICTURE")
    assert "  → L'hibou dort.\n  ≠ Le hibou dort." in shown
    assert "  → Elle chante.\n\n" in shown
    assert "trained in 100 seconds" in shown
    assert "98.6 % translated exactly" in shown
    assert "PICTURE" in shown
