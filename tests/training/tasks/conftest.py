"""Toys for each kind of task: data of a made-up language, and a recipe that learns from it in seconds."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from regard.training.recipe import Recipe, load_recipe

NOUNS, VERBS = ("bird", "dog", "cat", "fish", "tree", "stone"), ("sees", "likes", "eats", "finds")
GOOD, BAD = ("good", "fine", "lovely"), ("bad", "poor", "awful")
SMALL = {"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "dropout": 0.1}
ENCODER = SMALL | {"attention_dropout": 0.0, "max_positions": 64}
KINDS: dict[str, dict[str, Any]] = {
    "language": {"task": {"kind": "language"}, "model": SMALL | {"architecture": "gpt2", "max_positions": 64}},
    "blocks": {
        "task": {"kind": "language", "reading": "random"},
        "tokenizer": {"kind": "characters"},
        "model": SMALL | {"architecture": "gpt2", "max_positions": 64},
    },
    "masked": {"task": {"kind": "masked", "whole_words": True}, "model": ENCODER | {"architecture": "bert"}},
    "permutation": {
        "task": {"kind": "permutation"},
        "model": SMALL | {"architecture": "xlnet"},
    },
    "spans": {"task": {"kind": "spans", "share": 0.3}, "model": SMALL | {"architecture": "t5", "head_dim": 8}},
    "denoising": {
        "task": {"kind": "denoising", "delete": 0.1, "rotate": 0.5},
        "model": SMALL | {"architecture": "bart", "max_positions": 64},
    },
    "classification": {"task": {"kind": "classification"}, "model": ENCODER | {"architecture": "bert"}},
    "pairs": {
        "task": {"kind": "classification"},
        "data": {"second": "other"},
        "model": ENCODER | {"architecture": "bert"},
    },
    "tagging": {"task": {"kind": "tagging"}, "model": ENCODER | {"architecture": "bert"}},
    "images": {
        "task": {"kind": "images", "shift": 1},
        "model": {"architecture": "vit", "num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "patch_size": 2},
    },
}


def sentence(draw: random.Random) -> str:
    """Five to seven words and a full stop."""
    first, second = draw.sample(NOUNS, 2)
    word = draw.choice(GOOD + BAD)
    more = f" and a {draw.choice(NOUNS)}" if draw.random() < 0.5 else ""
    return f"the {word} {first} {draw.choice(VERBS)} a {second}{more} ."


def tags(text: str) -> str:
    """B-N for nouns that follow an adjective, as spans with it; O elsewhere."""
    words = text.split()
    found = ["O"] * len(words)
    for at, word in enumerate(words):
        if word in GOOD + BAD:
            found[at : at + 2] = ["B-N", "I-N"]
    return " ".join(found)


def rows(kind: str, count: int, seed: int) -> str:
    """The file of a split."""
    draw = random.Random(seed)
    said = [sentence(draw) for _ in range(count)]
    if kind == "classification":
        return "text\tlabel\n" + "".join(f"{s}\t{'good' if any(w in s for w in GOOD) else 'bad'}\n" for s in said)
    if kind == "pairs":
        pairs = [(s, draw.choice(GOOD + BAD)) for s in said]
        return "text\tother\tlabel\n" + "".join(f"{s}\t{o}\t{int(any(w in o for w in GOOD))}\n" for s, o in pairs)
    if kind == "tagging":
        return "text\tlabel\n" + "".join(f"{s}\t{tags(s)}\n" for s in said)
    return "".join(f"{s} {sentence(draw)}\n" for s in said)


def idx(path: Path, values: np.ndarray) -> None:
    """Write an idx file."""
    head = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    path.write_bytes(head + values.astype(np.uint8).tobytes())


def images(folder: Path, split: str, count: int, seed: int) -> str:
    """Two idx files of images that are bright on the left or on the right."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, count)
    pixels = draw.integers(0, 60, (count, 4, 6))
    for image, label in zip(pixels, labels):
        image[:, 3 * label : 3 * label + 3] += 150
    files = folder / f"{split}-images", folder / f"{split}-labels"
    idx(files[0], pixels)
    idx(files[1], labels)
    return ",".join(file.name for file in files)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Recipe]:
    """made(kind, key=value …): the toy of a kind, with changes of its sections."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))

    def make(kind: str, **changes: dict[str, Any]) -> Recipe:
        data: dict[str, Any] = {"source": "text", "target": "label", "max_length": 24}
        for split, count, seed in (("train", 60, 1), ("valid", 12, 2), ("test", 10, 3)):
            if kind == "images":
                data[split] = images(tmp_path, split, count, seed)
            else:
                ending = "tsv" if kind in ("classification", "pairs", "tagging") else "txt"
                file = tmp_path / f"{kind}.{split}.{ending}"
                file.write_text(rows(kind, count, seed), encoding="utf-8")
                data[split] = file.name
        recipe = {
            "data": data,
            "tokenizer": {"kind": "words", "vocab_size": 64},
            "training": {
                "max_steps": 8,
                "batch_tokens": 30 if kind == "images" else 160,
                "learning_rate": 5e-3,
                "warmup_steps": 2,
                "schedule": "linear",
                "save_every": 4,
                "evaluate_every": 4,
                "log_every": 2,
                "threads": 1,
            },
            "search": {"num_beams": 1},
        }
        for part in (KINDS[kind], changes):
            for section, values in part.items():
                fresh = section == "model" and ("from" in values or "architecture" in values)
                recipe[section] = (values if fresh else recipe.get(section, {}) | values) if values else {}
        path = tmp_path / f"{kind}.yaml"
        path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
        return load_recipe(path)

    return make
