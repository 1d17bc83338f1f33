"""Means of weights."""

from __future__ import annotations

import pytest
import torch

from regard.checkpoints.average import average, mean_weights
from regard.checkpoints.folders import named_tensors, save_model
from regard.errors import UserError
from regard.models import transformer

SIZES = {"vocab_size": 23, "num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2}


def make(seed, **arguments):
    torch.manual_seed(seed)
    return transformer.describe(**SIZES, **arguments).build().eval()


def test_the_mean_is_taken_in_float64(tmp_path):
    made = [make(seed) for seed in range(3)]
    for number, model in enumerate(made):
        save_model(tmp_path / str(number), model)
    mean = mean_weights([tmp_path / str(number) for number in range(3)])
    for name, tensor in mean.items():
        exact = sum(named_tensors(model)[name].detach().double() for model in made) / 3
        assert tensor.dtype == torch.float32
        assert tensor.equal(exact.float())
    assert mean.keys() == dict(made[0].named_parameters()).keys()


def test_other_models_are_refused(tmp_path):
    save_model(tmp_path / "a", make(1))
    save_model(tmp_path / "b", make(2, placement="pre"))
    with pytest.raises(UserError, match=r"b: another model than .*a; only models of one description"):
        mean_weights([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(UserError, match="nothing to average"):
        mean_weights([])


def test_other_vocabularies_of_marian_are_refused(tmp_path):
    """Their files are others than tokenizer.json, and were not looked at: the mean had no tokenizer at all."""
    for name in "ab":
        save_model(tmp_path / name, make(1))
        for file in ("source.spm", "target.spm", "vocab.json"):
            (tmp_path / name / file).write_text(name, encoding="utf-8")
    with pytest.raises(UserError, match="has other tokenizers"):
        average([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
