"""regard average."""

from __future__ import annotations

import json

import pytest

from regard.checkpoints.average import average
from regard.checkpoints.folders import named_tensors, save_model
from regard.cli import main
from regard.errors import UserError
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import load


def test_average_of_folders(tmp_path, shared, capsys, translator_for, model_for, few_lines):
    for seed in (1, 2):
        translator_for(shared, seed).save(tmp_path / str(seed))
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
    other = train_tokenizer(few_lines[1], Plan("words", vocab_size=60))
    save_model(tmp_path / "3", model_for(shared), Tokenizers(other, other, True))
    with pytest.raises(UserError, match="other tokenizers than"):
        average([tmp_path / "1", tmp_path / "3"], tmp_path / "no")
    assert main(["average", str(tmp_path / "1")]) == 2
    assert "--output DIR" in capsys.readouterr().err
