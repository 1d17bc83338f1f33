"""A training small enough for a test: forty pairs of a toy language, a model of a few thousand weights."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml

from regard.training.recipe import Recipe, load_recipe


def pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Numbers spelled in letters, and the same backwards."""
    draw = random.Random(seed)
    words = ["".join(draw.choice("abcdef") for _ in range(draw.randint(2, 6))) for _ in range(count)]
    return [(" ".join(word), " ".join(reversed(word))) for word in words]


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recipe file with its data beside it."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    for name, count, seed in (("train", 40, 1), ("valid", 6, 2), ("test", 6, 3)):
        text = "".join(f"{source}\t{target}\n" for source, target in pairs(count, seed))
        (tmp_path / f"{name}.tsv").write_text(text, encoding="utf-8")
    recipe = {
        "data": {"source": "xx", "target": "yy", "train": "train.tsv", "valid": "valid.tsv", "test": "test.tsv"},
        "tokenizer": {"kind": "words", "vocab_size": 32},
        "model": {"architecture": "transformer", "num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "dropout": 0.3},
        "training": {
            "max_steps": 12,
            "batch_tokens": 40,
            "learning_rate": 3e-3,
            "warmup_steps": 2,
            "schedule": "linear",
            "save_every": 4,
            "evaluate_every": 6,
            "log_every": 2,
            "threads": 1,
        },
        "search": {"num_beams": 2},
        "evaluation": {"max_sentences": 4, "samples": 1, "metrics": ["chrf"]},
    }
    path = tmp_path / "toy.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path


@pytest.fixture
def toy_recipe(toy: Path) -> Recipe:
    """The same as a value."""
    return load_recipe(toy)
