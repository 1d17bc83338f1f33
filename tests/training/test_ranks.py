"""One process alone: everything is its own. Several are tried in test_parallel.py."""

from __future__ import annotations

import pytest
import torch

from regard.errors import UserError
from regard.training import ranks


def test_alone_there_is_nobody_to_ask() -> None:
    ranks.join()
    assert not ranks.started()
    assert (ranks.rank(), ranks.world(), ranks.main()) == (0, 1, True)
    assert ranks.first(lambda: 3) == ranks.in_turn(lambda: 3) == 3
    assert ranks.gather("a") == ["a"]
    assert ranks.total([1.5, 2.0]) == [1.5, 2.0]
    assert ranks.spread([1, 2, 3], lambda some: [2 * one for one in some]) == [2, 4, 6]
    assert ranks.spread([], lambda some: [1 / 0]) == []
    ranks.wait()
    ranks.leave()


def test_more_processes_than_gpus_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match="2 GPUs are too few for process 3: lower --nproc-per-node"):
        ranks.join()
