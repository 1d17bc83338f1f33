"""Routes are what the layers did."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.inspection.experts import mixtures, routes
from regard.inspection.reading import read
from regard.layers.experts import expert_load


def test_routes_and_loads(made: Any) -> None:
    its = made("experts")
    reading = read(its, "A dog runs", " in the park")
    with torch.no_grad(), expert_load(its.model) as load, routes(its.model) as found:
        reading.answer(its.model)
    assert list(found) == list(mixtures(its.model)) == [f"decoder.blocks.{n}.feedforward" for n in (0, 1)]
    for number, one in enumerate(found.values()):
        assert one.share.shape == (len(reading.said), 3)
        torch.testing.assert_close(one.share.sum(1), torch.ones(len(reading.said)))
        assert one.chosen.shape == (len(reading.said), 2)
        assert (one.share.gather(1, one.chosen)[:, 0] == one.share.amax(1)).all()
        assert one.load == pytest.approx(load.shares()[number].tolist())
    assert not any(module._forward_hooks for module in its.model.modules())


def test_other_models_have_none(made: Any) -> None:
    assert mixtures(made("translate").model) == {}
