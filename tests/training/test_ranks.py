"""One process alone: everything is its own. Several are tried in test_parallel.py."""

from __future__ import annotations

import socket
from datetime import timedelta

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


def test_whoever_finds_nobody_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    about = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for name, value in about.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ranks, "MEETING", timedelta(seconds=1))
    with pytest.raises(UserError, match="the processes did not find each other in 0:00:01: start them anew"):
        ranks.join(cpu=True)
    assert ranks.world() == 1


def test_processes_started_anew_share_no_names_with_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent of one machine keeps its store: what the dead left there must not be read."""
    monkeypatch.setenv("GROUP_WORLD_SIZE", "1")
    names = set()
    for attempt in ("0", "1", "2"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
        names.add(ranks._attempt())
    assert len(names) == 3
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")  # machines may have counted differently
    assert ranks._attempt() not in names


def test_more_processes_than_gpus_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UserError, match="2 GPUs are too few for process 3: lower --nproc-per-node"):
        ranks.join()
