from __future__ import annotations

import pytest
import torch

import regard.batches.budget as budget_module
from regard.batches import find_budget
from regard.batches.budget import out_of_memory
from regard.errors import UserError


@pytest.fixture(autouse=True)
def collected(monkeypatch):
    """Collecting the rubbish of a whole test run takes half a second each time: count how often it is asked for."""
    calls = []
    monkeypatch.setattr(budget_module.gc, "collect", lambda: calls.append(1))
    return calls


class Memory:
    """A step that fails above a number of tokens, and what was tried."""

    def __init__(self, room: int, error: Exception | None = None) -> None:
        self.room, self.tried = room, []
        self.error = error or torch.OutOfMemoryError("CUDA out of memory")

    def __call__(self, budget: int) -> None:
        self.tried.append(budget)
        if budget > self.room:
            raise self.error


@pytest.mark.parametrize("room", [64, 100, 999, 1000, 1001, 4096, 7777])
def test_the_exact_budget_is_found(room):
    assert find_budget(Memory(room), start=64, limit=8000, precision=0) == room


@pytest.mark.parametrize("room", [1, 3, 63])
def test_a_start_that_is_too_large_goes_down(room):
    assert find_budget(Memory(room), start=64, limit=8000, precision=0) == room


def test_what_a_failed_step_held_is_freed_before_the_next(collected):
    memory = Memory(1000)
    find_budget(memory, start=64, limit=8000)
    assert len(collected) == sum(budget > 1000 for budget in memory.tried) > 0


def test_the_limit_is_the_end():
    memory = Memory(10**9)
    assert find_budget(memory, start=1000, limit=5000) == 5000
    assert memory.tried == [1000, 2000, 4000, 5000]


def test_precision_saves_tries():
    coarse, exact = Memory(5000), Memory(5000)
    found = find_budget(coarse, start=1000, limit=10**6)
    assert find_budget(exact, start=1000, limit=10**6, precision=0) == 5000
    assert 5000 * (1 - 1 / 16) <= found <= 5000
    assert len(coarse.tried) < len(exact.tried)
    assert len(set(exact.tried)) == len(exact.tried)


def test_no_room_at_all_is_told():
    memory = Memory(30)
    with pytest.raises(UserError, match="32 tokens"):
        find_budget(memory, start=64, limit=128, smallest=32)
    assert min(memory.tried) == 32


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RuntimeError("MPS backend out of memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), True),
        (RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True),
        (RuntimeError("shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_what_counts_as_exhausted_memory(error, says):
    assert out_of_memory(error) is says
    if says:
        assert find_budget(Memory(40, error), start=16, limit=100, precision=0) == 40
    else:
        with pytest.raises(type(error)):
            find_budget(Memory(40, error), start=16, limit=100)


def test_a_real_allocation_that_cannot_be_served():
    def step(budget: int) -> None:
        torch.empty(1 if budget <= 50 else 1 << 60, dtype=torch.uint8)

    assert find_budget(step, start=10, limit=1000, precision=0) == 50


def test_senseless_bounds_are_refused():
    with pytest.raises(ValueError, match="start"):
        find_budget(Memory(1), start=10, limit=5)
