"""What running a model costs."""

from __future__ import annotations

import pytest
import torch

from regard.evaluation import cost
from regard.evaluation.cost import measured


class Two(torch.nn.Linear):
    device = torch.device("cpu")


def test_weights_time_and_memory() -> None:
    def work() -> float:
        return float(torch.ones(30_000_000).sum())  # 120 MB for a moment

    result, found = measured("a", Two(10, 9), 50, work)
    assert result == 3e7
    assert (found.name, found.parameters, found.megabytes) == ("a", 99, 99 * 4 / 1e6)
    assert found.seconds > 0
    assert found.a_second == pytest.approx(50 / found.seconds)
    if cost.STATM.is_file():
        assert found.peak is not None
        assert found.peak >= 0


def test_memory_that_cannot_be_seen_is_not_told(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(cost, "STATM", tmp_path / "nothing")
    assert measured("a", Two(2, 2), 1, lambda: None)[1].peak is None
