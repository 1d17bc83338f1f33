"""Numbers that no folder can mean."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch

from regard import models
from regard.checkpoints.bounds import FEW, check_known, check_numbers
from regard.checkpoints.folders import load_model, save_model
from regard.errors import UserError


def test_what_models_have_passes() -> None:
    for name in models.names():
        for size, arguments in models.find(name).SIZES.items():
            check_numbers(arguments, f"{name} {size}", 0)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"d_model": 2**31}, r"here: d_model is 2.15e\+09, and no model has so many"),
        ({"inner": [{"vocab_size": -(10**30)}]}, "here: vocab_size is -1e"),
        ({"num_layers": FEW + 1}, "here: num_layers is 257, but the folder has only 9 tensors"),
        ({"eps": float("nan")}, "here: eps is nan, which is no number"),
        ({"base": float("inf")}, "here: base is inf"),
    ],
    ids=str,
)
def test_what_none_has_is_named(value: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        check_numbers(value, "here", 9)


def test_so_many_layers_as_tensors_may_be() -> None:
    check_numbers({"num_layers": 1000}, "here", 1000)


@pytest.mark.parametrize("key", ["encoder_layers", "d_model", "vocab_size", "max_position_embeddings", "encoder_ffn_dim"])
@pytest.mark.parametrize("number", [10**9, 2**31 - 1, 10**15])
def test_gigantic_numbers_are_refused_before_memory_is_taken(tmp_path: Path, key: str, number: int) -> None:
    torch.manual_seed(1)
    save_model(tmp_path, models.find("transformer").describe(vocab_size=23, num_layers=1, d_model=8, d_ff=16).build())
    (tmp_path / "regard.json").unlink()
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert key in config
    (tmp_path / "config.json").write_text(json.dumps(config | {key: number}), encoding="utf-8")
    tracemalloc.start()
    try:
        if key == "max_position_embeddings":  # sinusoids have no table that would take memory
            load_model(tmp_path)
        else:
            with pytest.raises(UserError) as refusal:
                load_model(tmp_path)
            assert "\n" not in str(refusal.value)
        assert tracemalloc.get_traced_memory()[1] < 50 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"search": [1]}, "here: search is '\\[1\\]', should be an object"),
        ({"source": 7}, "here: source is '7', should be a text"),
        ({"labels": "abc"}, "here: labels is 'abc', should be a list"),
        ({"labels": ["a", 1]}, "here: labels should be a list of texts"),
        ({"preprocess": [None]}, "here: preprocess should be a list of texts"),
        ({"ends": 3}, "here: ends is '3', should be a list"),
    ],
    ids=str,
)
def test_what_a_folder_tells_is_of_its_kind(own: dict[str, Any], said: str) -> None:
    check_known({"search": None, "labels": ["a"], "unknown": 3}, "here")
    with pytest.raises(UserError, match=said):
        check_known(own, "here")
