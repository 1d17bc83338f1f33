"""regard average."""

from __future__ import annotations

import json

import pytest
import torch

from regard.checkpoints.average import average
from regard.checkpoints.folders import named_tensors, save_model
from regard.cli import main
from regard.errors import UserError
from regard.models import transformer
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translator, load

LINES = ["A dog runs in the park .", "Two men play football , and a girl looks on .", "The red house is near the sea ."] * 3
FRENCH = ["Un chien court dans le parc .", "Deux hommes jouent au football .", "La maison rouge est près de la mer ."] * 3


@pytest.fixture(scope="module")
def shared():
    made = train_tokenizer(LINES + FRENCH, Plan("words", vocab_size=60))
    return Tokenizers(made, made, True)


def model_for(tokenizers, seed=1, **arguments):
    torch.manual_seed(seed)
    sizes = {"vocab_size": tokenizers.source.vocab_size, "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}
    return transformer.describe(**(sizes | arguments)).build().eval()


def translator(tokenizers, seed=1):
    return Translator(model_for(tokenizers, seed), tokenizers)


def test_average_of_folders(tmp_path, shared, capsys):
    for seed in (1, 2):
        translator(shared, seed).save(tmp_path / str(seed))
    output = str(tmp_path / "mean")
    assert main(["average", str(tmp_path / "1"), str(tmp_path / "2"), "--output", output, "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["folder"] == output
    mean = load(output)
    first, second = (named_tensors(load(tmp_path / str(seed)).model) for seed in (1, 2))
    for name, tensor in named_tensors(mean.model).items():
        assert tensor.equal(((first[name].double() + second[name].double()) / 2).float())
    assert mean.meta["average_of"] == ["1", "2"]
    assert mean.translate([""]) == [""]
    assert main(["average", str(tmp_path / "1"), "--output", output]) == 2
    assert "is not empty" in capsys.readouterr().err
    other = train_tokenizer(FRENCH, Plan("words", vocab_size=60))
    save_model(tmp_path / "3", model_for(shared), Tokenizers(other, other, True))
    with pytest.raises(UserError, match="other tokenizers than"):
        average([tmp_path / "1", tmp_path / "3"], tmp_path / "no")
    assert main(["average", str(tmp_path / "1")]) == 2
    assert "--output DIR" in capsys.readouterr().err
