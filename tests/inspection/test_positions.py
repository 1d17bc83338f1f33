"""How places are told, for each way there is."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.inspection.positions import places
from regard.layers.positions import sinusoids
from regard.models import find, transformer

SIZES: dict[str, Any] = {"vocab_size": 20, "num_layers": 1, "d_model": 16, "d_ff": 8, "num_heads": 2}


def halves(description: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model = description.build().eval()
    return (model.decoder, description.decoder) if model.encoder is None else (model.encoder, description.encoder)


def test_sines_are_the_table_that_is_added() -> None:
    found = places(*halves(transformer.describe(**SIZES)), 10)
    assert found.kind == "sinusoidal"
    torch.testing.assert_close(found.table, sinusoids(512, 16)[:10])
    assert found.dots is not None
    torch.testing.assert_close(found.dots.diagonal(), torch.ones(10, dtype=torch.float64))
    for offset in range(4):  # how alike two places are depends on how far apart they are
        assert float(found.dots.diagonal(offset).std()) < 1e-6


def test_learned_vectors() -> None:
    half, told = halves(transformer.describe(**SIZES, positions="learned", max_positions=32))
    found = places(half, told, 8)
    assert found.kind == "learned"
    torch.testing.assert_close(found.table, half.embed.position.table.weight[:8])


WAYS = [("llama", "rotary"), ("t5", "buckets"), ("xlnet", "relative"), ("rnn", "none")]


@pytest.mark.parametrize(("family", "kind"), WAYS)
def test_ways_inside_attention(family: str, kind: str) -> None:
    sizes = {"vocab_size": 20, "d_model": 16} if family == "rnn" else SIZES
    found = places(*halves(find(family).describe(**sizes)), 6)
    assert found.kind == kind
    assert found.table is None
    assert (found.dots is not None) == (kind == "rotary")
    if found.dots is not None:
        torch.testing.assert_close(found.dots[0, 0], torch.tensor(1.0, dtype=torch.float64))
        torch.testing.assert_close(found.dots[1, 4], found.dots[0, 3])
