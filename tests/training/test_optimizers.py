"""Schedules and optimisers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from regard.errors import UserError
from regard.training.optimizers import SCHEDULES, build_optimizer, learning_rate


@dataclass(frozen=True)
class Rates:
    schedule: str = "constant"
    learning_rate: float = 1e-3
    final_learning_rate: float = 0.0
    warmup_steps: int = 4
    max_steps: int | None = 100
    max_minutes: float | None = None


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("warmup", "rates"), [(0, [1e-3]), (1, [1e-3]), (4, [2.5e-4, 5e-4, 7.5e-4, 1e-3])])
def test_warm_up_is_never_zero_and_ends_at_the_peak(schedule: str, warmup: int, rates: list[float]) -> None:
    """S-RES-06."""
    its = Rates(schedule, warmup_steps=warmup)
    found = [learning_rate(its, step) for step in range(1, len(rates) + 1)]
    assert found == pytest.approx(rates, rel=0.02)
    if warmup:
        assert learning_rate(its, warmup) == pytest.approx(1e-3, rel=1e-12)


def test_inverse_sqrt_is_noams() -> None:
    """d^-0.5 · min(s^-0.5, s · w^-1.5), whose peak is (d · w)^-0.5."""
    its = Rates("inverse_sqrt", learning_rate=(512 * 4000) ** -0.5, warmup_steps=4000)
    for step in (1, 100, 3999, 4000, 4001, 100_000):
        assert learning_rate(its, step) == pytest.approx(512**-0.5 * min(step**-0.5, step * 4000**-1.5))


@pytest.mark.parametrize("schedule", ["linear", "cosine", "wsd"])
def test_schedules_with_an_end_fall_to_the_final_rate(schedule: str) -> None:
    its = Rates(schedule, final_learning_rate=1e-5)
    found = [learning_rate(its, step) for step in range(4, 101)]
    assert found[0] == pytest.approx(1e-3)
    assert found[-1] == pytest.approx(1e-5)
    assert found == sorted(found, reverse=True)
    assert learning_rate(its, 5000) == pytest.approx(1e-5)


def test_time_ends_a_schedule_too() -> None:
    its = Rates("linear", max_steps=None, max_minutes=10.0)
    assert learning_rate(its, 50, elapsed=300.0) == pytest.approx(5e-4)
    assert learning_rate(its, 50, elapsed=600.0) == 0.0
    both = replace(its, max_steps=104)
    assert learning_rate(both, 79, elapsed=60.0) == pytest.approx(2.5e-4)


def test_a_schedule_without_an_end_is_refused() -> None:
    with pytest.raises(UserError, match="linear needs an end"):
        learning_rate(Rates("linear", max_steps=None), 50)
    with pytest.raises(UserError, match="unknown schedule 'noam'; known: inverse_sqrt"):
        learning_rate(Rates("noam"), 50)


def test_constant_stays_constant() -> None:
    """S-RES-10: the rate after a resume is a function of the update alone."""
    assert {learning_rate(Rates(), step) for step in range(4, 1000, 7)} == {1e-3}


@dataclass(frozen=True)
class Optimising:
    optimizer: str = "adamw"
    learning_rate: float = 1e-2
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-9
    weight_decay: float = 0.5


def test_weight_decay_spares_vectors() -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = build_optimizer(model, Optimising())
    before = [p.detach().clone() for p in model.parameters()]
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    assert torch.allclose(model.weight, before[0] * (1 - 1e-2 * 0.5))
    assert torch.equal(model.bias, before[1])


def test_unknown_optimizers_are_refused() -> None:
    with pytest.raises(UserError, match="unknown optimizer 'sgd'; known: adam, adamw"):
        build_optimizer(torch.nn.Linear(1, 1), Optimising(optimizer="sgd"))
