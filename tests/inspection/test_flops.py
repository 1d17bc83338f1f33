"""FLOPs read off descriptions, against counting while the model runs."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from regard import models
from regard.inspection.flops import UNCOUNTED, flops
from regard.layers.kernels import LARGE, linear
from regard.layout import Layout
from regard.models import longformer, rnn, transformer, vit

FOLDER = Path(__file__).resolve().parents[1] / "contract" / "tiny"
TINY = [(file.stem, one) for file in sorted(FOLDER.glob("*.py")) for one in runpy.run_path(str(file))["TINY"]]
APART = ("longformer", "xlnet")
"""Do a little more or less: rows of global tokens, products with two vectors of segments."""


def counted(description: Any, length: int, inputs: Any = None) -> int:
    model = description.build().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(0.01)
    ids = torch.full((1, length), 5) if inputs is None else inputs
    both = model.encoder is not None and model.decoder is not None
    layout = None
    if model.encoder is None:  # nothing is predicted in an order of its own
        layout = Layout.unpadded(length)
        layout = replace(layout, mark=torch.zeros_like(layout.position))
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=UNCOUNTED) as counter:
        model(ids, ids if both else None, layout=layout)
    return int(counter.get_total_flops())


@pytest.mark.parametrize(("name", "arguments"), TINY, ids=[f"{name}-{n}" for n, (name, _) in enumerate(TINY)])
def test_every_architecture_costs_what_is_counted(name, arguments):
    description = models.find(name).describe(**arguments)
    mine, told = sum(flops(description, 16).values()), counted(description, 16)
    if name in APART:
        assert 0.95 * told < mine < 1.05 * told
    else:
        assert mine == told


def test_images_have_their_own_length():
    description = vit.describe(
        image_size=8, patch_size=4, channels=1, num_layers=1, d_model=8, d_ff=12, num_heads=2, classes=3
    )
    found = flops(description, 999)
    assert sum(found.values()) == counted(description, 0, torch.zeros(1, 1, 8, 8)) + 2 * 16 * 8
    assert found["head.project"] == 2 * 8 * 3


def test_windows_cost_what_their_blocks_do():
    """Twice the tokens cost twice as much, and no more than a little above what is counted."""
    sizes = {"vocab_size": 9, "num_layers": 1, "d_model": 8, "d_ff": 8, "num_heads": 2, "max_positions": 4096}
    description = longformer.describe(**sizes, window=(32,))
    one, two = (sum(flops(description, length).values()) for length in (1024, 2048))
    assert 1.9 < two / one < 2.2
    dense = sum(flops(transformer.describe(vocab_size=9, num_layers=1, d_model=8, d_ff=8, num_heads=2), 2048).values())
    assert two < dense / 4


def test_names_are_the_modules():
    description = rnn.describe(vocab_size=13, d_model=8, attention="dot", cell="lstm")
    names = dict(description.on_meta().named_modules())
    assert set(flops(description)) <= set(names)
    assert all(weight.is_meta for weight in description.on_meta().parameters())


def test_large_products_are_counted() -> None:
    x, weight = torch.ones(1 << 10, 1 << 7), torch.ones(1 << 7, 1 << 7)
    assert x.numel() * len(weight) >= LARGE, "what oneDNN makes"
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=UNCOUNTED) as counter:
        linear(x, weight)
    assert counter.get_total_flops() == 2 * x.numel() * len(weight)
