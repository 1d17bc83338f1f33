"""Planning a recipe: counts against formulas, memory against what tensors hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

from regard import models
from regard.batches import collate
from regard.training.plan import Plan, forward_flops, plan, saved_bytes
from regard.training.recipe import load_recipe


def _batch(rows: int, source: int, target: int) -> Any:
    import numpy as np

    pairs = [(np.arange(4, 3 + source), np.arange(4, 3 + target)) for _ in range(rows)]
    return collate(pairs, list(range(rows)), 0, 2, 3)


def test_the_transformers_products_follow_the_formula() -> None:
    d, f, n, v, rows, s, t = 32, 64, 2, 50, 3, 7, 5
    model = models.find("transformer").describe(vocab_size=v, d_model=d, d_ff=f, num_layers=n, num_heads=4).build()
    encoder = n * (4 * d * d + 2 * d * f + 2 * s * d)
    crossing = n * 2 * d * d
    decoder = n * (4 * d * d + 2 * d * d + 2 * d * f + 2 * t * d + 2 * s * d)
    expected = 2 * rows * ((encoder + crossing) * s + (decoder + d * v) * t)
    assert forward_flops(model.train(), _batch(rows, s, t)) == expected
    assert model.training


@pytest.mark.parametrize(("cell", "gates"), [("rnn", 1), ("gru", 3), ("lstm", 4)])
def test_recurrent_products_are_counted_on_padded_batches_too(cell: str, gates: int) -> None:
    from types import SimpleNamespace

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = getattr(nn, cell.upper())(8, 16, batch_first=True)

        def forward(self, inputs: torch.Tensor, outputs: torch.Tensor, **layouts: Any) -> Any:
            lengths = torch.tensor([5, 3])
            packed = nn.utils.rnn.pack_padded_sequence(torch.zeros(2, 5, 8), lengths, batch_first=True)
            return self.layer(packed)

    batch = SimpleNamespace(inputs=None, outputs=None, layout=None, output_layout=None, segments=None)
    assert forward_flops(Reader(), batch) == 2 * gates * 16 * (8 + 16) * 8


def test_saved_bytes_are_those_of_the_layers_inputs() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Sigmoid(), nn.Linear(16, 4))
    x = torch.zeros(10, 8, requires_grad=True)
    assert saved_bytes(model, lambda: model(x)) == 4 * 10 * (8 + 16)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("plan")
    words = "abcdefghijkl"
    lines = [f"{a} {b}\t{b} {a} {b}" for a in words for b in words]
    (folder / "train.tsv").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (folder / "valid.tsv").write_text("a b\tb a b\n", encoding="utf-8")
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        f"data: {{train: {folder}/train.tsv, valid: {folder}/valid.tsv, source: en, target: fr}}\n"
        "tokenizer: {kind: words, vocab_size: 40}\n"
        "model: {architecture: transformer, d_model: 16, d_ff: 32, num_layers: 1, num_heads: 2}\n"
        "training: {max_epochs: 3, batch_tokens: 100, threads: 1, prefetch: 0, ema: 0.9}\n",
        encoding="utf-8",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        return plan(load_recipe(str(recipe)), count=3)


def test_a_plan_counts_weights_and_what_training_holds(planned: Plan) -> None:
    assert planned.parameters == sum(planned.by_part.values())
    assert planned.memory.weights == planned.memory.gradients == planned.memory.ema == 4 * planned.parameters
    assert planned.memory.optimizer == pytest.approx(8 * planned.parameters, rel=0.02)
    assert planned.memory.activations == planned.held.activations > planned.checkpointed.activations > 0
    assert planned.memory.peak > planned.memory.training


def test_a_plan_expects_the_steps_and_the_time_of_the_recipe(planned: Plan) -> None:
    assert planned.timed_steps == 3
    assert planned.steps == 3 * planned.epoch_steps
    assert planned.seconds == pytest.approx(planned.steps * planned.step_seconds)
    assert planned.training_flops == 3 * planned.forward_flops
    assert planned.flops_per_second == pytest.approx(planned.training_flops * planned.tokens_per_second)


def test_a_plan_is_told_in_lines_and_json(planned: Plan) -> None:
    text = "\n".join(planned.lines())
    assert f"{planned.parameters:,}" in text
    assert f"{planned.steps:,} steps" in text
    assert json.loads(json.dumps(planned.json()))["memory"]["weights"] == planned.memory.weights
