"""Forecasts for other machines: against sums made by hand, and in their limits."""

from __future__ import annotations

import json
from itertools import pairwise
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.training.machines import (
    AGREED,
    ASSUMPTIONS,
    BUCKET,
    Machines,
    Needs,
    collectives,
    document,
    forecast,
    forecasts,
    lines,
    optimal_tokens,
    read_machines,
    simulated,
)
from regard.training.moments import Moment

NEEDS = Needs(
    parameters=100_000_000,
    blocks=10,
    largest=8_000_000,
    rest=20_000_000,
    optimizer=8.0,
    moments=(Moment(5_000_000_000, 0, 0), Moment(2_000_000_000, 0, 200_000_000)),
    checkpointed=(Moment(1_400_000_000, 16_000_000, 0), Moment(1_390_000_000, 16_000_000, 160_000_000)),
    copies=200_000_000,
    batch_tokens=25_000,
    flops=250_000_000,
    update_tokens=160_000.0,
    accumulate=8,
    updates=100_000,
    half=True,
)
NODE: dict[str, Any] = {
    "count": 8,
    "per_host": 8,
    "memory_gb": 40.0,
    "overhead_gb": 2.0,
    "peak_tflops": 300.0,
    "utilisation": 0.4,
    "host_gb_s": 200.0,
    "network_gb_s": 20.0,
    "latency_us": 0.0,
    "price_hour": 2.0,
}


def on(**changed: Any) -> Machines:
    return Machines.model_validate(NODE | changed)


def test_ddp_holds_all_and_fsdp_a_piece() -> None:
    whole, piece = forecast(NEEDS, on(), "ddp"), forecast(NEEDS, on(), "fsdp")
    assert (whole.weights, whole.gradients, whole.optimizer, whole.held) == (4e8, 4e8, 8e8, 0.0)
    assert (piece.weights, piece.gradients, piece.optimizer) == (4e8 / 8, 4e8 / 8, 8e8 / 8)
    assert whole.activations == piece.activations == 5e9
    assert whole.memory == pytest.approx(1.6e9 + 5e9 + 2e8)  # … and weights in bf16, which FSDP2 gathers as such
    assert piece.held == 2 * (20e6 + 16e6)  # at the first moment, without gradients
    assert piece.memory == pytest.approx(1.5e8 + 5e9 + piece.held)  # … one batch: gradients come as activations go
    again = forecast(NEEDS, on(), "fsdp", checkpointing=True)
    assert (again.activations, again.compute) == (1.39e9, pytest.approx(piece.compute * 4 / 3))
    # the second moment is the larger one: gradients of a block in a buffer, of the next in bf16, pieces of five blocks
    assert again.memory == pytest.approx(1.5e8 + 1.39e9 + 72e6 + 4 * 8e6 + 16e6 / 2 + 160e6 / 8)


def test_gradients_of_earlier_batches_are_there() -> None:
    once, twice = (forecast(Needs(**vars(NEEDS) | {"accumulate": n}), on(), "fsdp") for n in (8, 16))
    assert twice.memory - once.memory == pytest.approx(4e8 / 8)
    alone = forecast(Needs(**vars(NEEDS) | {"accumulate": 1}), on(count=1), "ddp")
    assert alone.memory == pytest.approx(1.2e9 + 5e9 + 2e8)
    assert forecast(NEEDS, on(count=1), "ddp").memory == pytest.approx(alone.memory + 4e8)


def test_the_end_of_the_backward_pass_may_be_what_takes_most() -> None:
    """Large vocabularies and short batches: gradients of the embedding are whole, and once more in a buffer."""
    few = Needs(**vars(NEEDS) | {"moments": (Moment(1000, 0, 0),), "rest": 90_000_000, "largest": 1_000_000})
    assert forecast(few, on(), "fsdp").memory == pytest.approx(1.5e8 + 6 * 90e6 + 4e8 / 8)


def test_collectives_are_counted() -> None:
    assert collectives("ddp", 2.0**20, 0.0, 3) == (1, 2.0**21)
    assert collectives("ddp", 51 * 2.0**20, 0.0, 3) == (3, 102 * 2.0**20)
    # each block is gathered twice, the rest once; all scatter their gradients once
    assert collectives("fsdp", 100.0, 10.0, 3) == (11, 290.0)
    assert collectives("fsdp", 100.0, 0.0, 3, narrow=0.5) == (9, 200.0)


def test_time_is_work_and_what_is_not_hidden() -> None:
    one = forecast(NEEDS, on(count=1), "ddp")
    assert one.step == one.compute == pytest.approx(3 * 250e6 * 160_000 / (300e12 * 0.4))
    assert one.days == pytest.approx(100_000 * one.step / 86_400)
    assert one.cost == pytest.approx(one.days * 24 * 2)
    eight = forecast(NEEDS, on(), "ddp")
    late = forecast(NEEDS, on(latency_us=10.0), "ddp")
    assert late.exchange - eight.exchange == pytest.approx((1 + ceil((4e8 - 2**20) / BUCKET) + AGREED) * 10e-6 * 3)
    assert eight.exchange == pytest.approx(2 * 4e8 * 7 / 8 / 200e9)
    assert eight.volume == pytest.approx(2 * 4e8 * 7 / 8)
    assert eight.hidden
    slow = forecast(NEEDS, on(count=64), "ddp")
    assert slow.exchange == pytest.approx(2 * (4e8 * 7 / 8 / 200e9 + 4e8 / 8 * 7 / 8 / 20e9))
    far = forecast(NEEDS, on(count=64, network_gb_s=0.1), "ddp")
    assert far.exposed == pytest.approx(far.exchange - far.compute * 2 / 3)
    assert not far.hidden
    bare = forecast(NEEDS, on(overlap=0.0), "ddp")
    assert bare.step == pytest.approx(bare.compute + bare.exchange)  # the cores that work exchange too


def test_the_batch_that_fits_fills_the_memory() -> None:
    found = forecast(NEEDS, on(), "ddp")
    moments = tuple(Moment(one.activations * found.batch_tokens // 25_000, one.open, one.closed) for one in NEEDS.moments)
    full = forecast(Needs(**vars(NEEDS) | {"batch_tokens": found.batch_tokens, "moments": moments}), on(), "ddp")
    assert full.fits
    assert full.memory / 1e9 == pytest.approx(38.0, rel=1e-3)
    small = forecast(NEEDS, on(memory_gb=3.0), "ddp")
    assert (small.fits, small.batch_tokens) == (False, 0)
    assert forecast(NEEDS, on(memory_gb=4.0), "fsdp", True).fits


def test_a_thousand_gpus_are_simulated() -> None:
    table = list(simulated(NEEDS, on()))
    assert [strong.gpus for strong, _ in table] == [2**n for n in range(11)]
    rates = [weak.tokens_per_second for _, weak in table]
    assert all(more > 1.5 * less for less, more in pairwise(rates))
    assert rates[-1] < 1024 * rates[0]
    speeds = [strong.tokens_per_second for strong, _ in table]
    assert speeds[-1] < rates[-1] / 2  # a shared update has too little work for so many
    assert all(weak.days <= strong.days * 1.01 for strong, weak in table)


def test_more_latency_and_less_width_cost_time() -> None:
    quick = forecast(NEEDS, on(count=256), "fsdp")
    assert forecast(NEEDS, on(count=256, latency_us=100.0), "fsdp").exchange > quick.exchange
    assert forecast(NEEDS, on(count=256, network_gb_s=2.0), "fsdp").step > quick.step


def test_compute_optimal_data() -> None:
    """Besiroglu et al. 2024 find about 20 tokens a weight near Chinchilla's own 70 billion."""
    twenty, fitted = optimal_tokens(70_000_000_000)
    assert twenty == 1.4e12
    assert 15 < fitted / 70e9 < 27


def test_forecasts_are_told_with_what_they_assume() -> None:
    text = "\n".join(lines(NEEDS, on(name="A100")))
    assert "on 8 GPUs (A100), an update of 160,000 target tokens" in text
    assert "fsdp + checkpointing" in text
    assert all(one in text for one in ASSUMPTIONS)
    told = json.loads(json.dumps(document(NEEDS, on())))
    assert len(told["forecasts"]) == len(forecasts(NEEDS, on())) == 4
    assert len(told["simulated"]) == 11


def test_machines_come_from_yaml(tmp_path: Path) -> None:
    path = tmp_path / "gpus.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in NODE.items()), encoding="utf-8")
    assert read_machines(path) == on()
    path.write_text(path.read_text(encoding="utf-8").replace("memory_gb", "memory"), encoding="utf-8")
    with pytest.raises(UserError, match=r"gpus\.yaml:3: unknown key memory; did you mean memory_gb\?"):
        read_machines(path)
    with pytest.raises(UserError, match=r"none\.yaml"):
        read_machines(tmp_path / "none.yaml")
