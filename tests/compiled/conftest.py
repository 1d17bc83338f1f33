"""Models small enough to be compiled for."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard import models

SMALL = {"vocab_size": 23, "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 4}


def built(name: str = "transformer", **more: Any) -> Any:
    """A seeded model."""
    torch.manual_seed(1)
    model = models.find(name).describe(**SMALL, **more).build().eval()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.normal_(0.0, 0.3)
    return model


@pytest.fixture
def build() -> Any:
    return built
