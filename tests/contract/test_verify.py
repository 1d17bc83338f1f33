"""Every architecture that transformers has: what regard writes is the same there, layer by layer, and so are generated ids.

Weights are random (gains around one, no bias zero), rows are of 9 and of 40 tokens, without and with padding.
"""

from __future__ import annotations

import pytest
import torch

from regard import models
from regard.checkpoints.folders import foreign, save_model
from regard.checkpoints.verify import verify

pytest.importorskip("transformers")

SMALL = {"num_layers": 2, "d_model": 8, "d_ff": 12, "num_heads": 2}
MORE = {
    "bert": SMALL | {"vocab_size": 13, "max_positions": 45, "head": "class", "classes": 3},
    "gpt2": SMALL | {"vocab_size": 13, "max_positions": 45, "head": "class", "classes": 3, "pad": 0},
    "longformer": SMALL | {"vocab_size": 13, "max_positions": 45, "window": (4, 8)},
    "vit": SMALL | {"image_size": 8, "patch_size": 4, "channels": 1, "classes": 3},
}
"""Heads and classes beside the first of the tiny arguments."""


def check(name, arguments, folder):
    torch.manual_seed(1)
    model = models.find(name).describe(**arguments).build().eval()
    models.find(name).initialise(model)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.1 * torch.randn_like(weight)
    save_model(folder, model, meta={"ids": {"bos": 2, "eos": 3}})
    report = verify(folder, ["float32"], [9, 40])
    assert report.equal, "\n".join(report.lines())
    assert len(report.layers) > 2 + SMALL["num_layers"] - 1
    assert report.generated or model.decoder is None or arguments.get("head", "next") != "next"


@pytest.mark.parametrize("name", models.names())
def test_folders_are_the_same_in_transformers(name, tiny, tmp_path):
    arguments = next((one for one in tiny[name] if foreign(models.find(name).describe(**one)) is not None), None)
    if arguments is None:
        assert not hasattr(models.find(name), "FORMATS") or name in MORE
        return
    check(name, arguments, tmp_path)


@pytest.mark.parametrize("name", MORE)
def test_other_heads_too(name, tmp_path):
    check(name, MORE[name], tmp_path)
