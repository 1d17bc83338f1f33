"""Two-way tables of configurations."""

from __future__ import annotations

import pytest
import torch

from regard.checkpoints.formats import (
    ACTIVATION_NAMES,
    Format,
    Key,
    each,
    read_classes,
    read_config,
    words,
    write_classes,
    write_config,
)
from regard.checkpoints.rules import Weights
from regard.errors import UserError
from regard.layers.feedforward import activation

FORMAT = Format(
    "toy",
    "Toy",
    {
        "width": "d_model",
        "act": Key("activation", "gelu", ACTIVATION_NAMES),
        "drop": Key("dropout", 0.1),
        "tie": Key("tied", True, {True: "all", False: "no"}),
    },
    lambda **arguments: Weights(()),
    fixed={"norm_first": (False,)},
    harmless=words("seed colour"),
    arguments={"placement": "post"},
    write=lambda arguments: None if arguments.get("odd") else {"norm_first": False},
)
ARGUMENTS = {"d_model": 8, "activation": "gelu", "dropout": 0.1, "tied": "all", "placement": "post"}


def test_configuration_both_ways():
    arguments = read_config(FORMAT, {"width": 8, "colour": "red", "torch_dtype": "float32"}, "FILE")
    assert arguments == ARGUMENTS
    config = write_config(FORMAT, arguments)
    assert config == {
        "model_type": "toy",
        "architectures": ["Toy"],
        "width": 8,
        "act": "gelu",
        "drop": 0.1,
        "tie": True,
        "norm_first": False,
    }
    assert read_config(FORMAT, config, "FILE") == arguments
    told = {"width": 8, "act": "gelu_new", "drop": 0.3, "tie": False}
    assert read_config(FORMAT, told, "FILE") == arguments | {"activation": "gelu_tanh", "dropout": 0.3, "tied": "no"}
    for wrong in ({"placement": "pre"}, {"odd": True}, {"activation": "sine"}, {"tied": "head"}):
        assert write_config(FORMAT, arguments | wrong) is None


def test_configuration_errors_stand_in_one_line():
    wrong = {"act": ["gelu"], "tie": 1, "norm_first": True, "quantization_config": {"bits": 4}}
    with pytest.raises(UserError) as error:
        read_config(FORMAT, wrong, "FILE")
    for part in (
        "width is missing",
        "act is ['gelu'], known are relu, gelu",
        "tie is 1, known are True, False",
        "norm_first is True, must be False",
        "quantization_config",
    ):
        assert part in str(error.value)
    assert "\n" not in str(error.value)
    with pytest.warns(UserWarning, match="does not know: moon, sun") as seen:
        read_config(FORMAT, {"width": 8, "moon": 1, "sun": 2}, "FILE")
    assert len(seen) == 1


def test_classes_that_share_a_body_differ_in_head():
    """Of a head of classes the number is read and written; of others it is no argument."""
    texts, plain = each(FORMAT, {"ForTexts": "class", "Model": "vector"})
    assert (texts.architecture, plain.architecture) == ("ToyForTexts", "ToyModel")
    read = read_config(texts, {"width": 8, "id2label": {"0": "a", "1": "b", "2": "c"}}, "FILE")
    assert read == ARGUMENTS | {"head": "class", "classes": 3}
    assert read_config(plain, {"width": 8, "num_labels": 3}, "FILE") == ARGUMENTS | {"head": "vector"}
    config = write_config(texts, read)
    assert config["architectures"] == ["ToyForTexts"]
    assert len(config["id2label"]) == 3
    assert write_config(plain, read) is None
    assert "id2label" not in write_config(plain, read | {"head": "vector", "classes": None})


def test_ckpt_06_forms_of_gelu():
    """S-CKPT-06: gelu is the exact form, gelu_new and gelu_pytorch_tanh the approximation."""
    one = torch.ones(1)
    values = {name: round(activation(ours)(one).item(), 6) for name, ours in ACTIVATION_NAMES.items()}
    assert values["gelu"] == 0.841345
    assert values["gelu_new"] == values["gelu_pytorch_tanh"] == 0.841192
    assert values["swish"] == values["silu"]


def test_number_of_classes_is_read_and_written():
    assert read_classes({}) == read_classes({"id2label": None}) == 2
    assert read_classes({"num_labels": 5}) == 5
    assert read_classes(write_classes(3)) == 3
    assert write_classes(2)["label2id"] == {"LABEL_0": 0, "LABEL_1": 1}


def test_what_a_format_refuses_while_reading_is_the_user_s_mistake():
    def read(config):
        raise ValueError("the tide is out")

    with pytest.raises(UserError, match=r"^FILE: the tide is out$"):
        read_config(Format("kind", "Class", {}, lambda: Weights(()), read=read), {}, "FILE")
