"""Loss, perplexity and token accuracy: the same however the data is cut into batches."""

from __future__ import annotations

import math
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from regard import models
from regard.batches.collate import Batch, collate
from regard.evaluation.likelihood import Sums, likelihood, of_logits, pair_batches
from regard.layers.heads import IGNORED, Targets
from regard.layout import Layout

PAIRS = [([5, 6, 7], [8, 9]), ([5], [6, 7, 8, 9, 10, 11]), ([9, 8], [7]), ([4, 5, 6, 7, 8], [4, 4, 4, 4])]


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    describe = models.find("transformer").describe
    built = describe(vocab_size=12, d_model=16, d_ff=32, num_heads=2, num_layers=1, dropout=0.3).build()
    return built.train()


def _batch(rows: list[int], width: int | None = None) -> Batch:
    """Rows of PAIRS, padded on both sides to `width` columns if given."""
    batch = collate([tuple(map(np.array, PAIRS[i])) for i in rows], rows, 0, 2, 3)
    if width is None:
        return batch
    for name, fill in (("inputs", 0), ("outputs", 0), ("targets", IGNORED)):
        ids = getattr(batch, name)
        setattr(batch, name, torch.nn.functional.pad(ids, (0, width - ids.shape[1]), value=fill))
    batch.layout = Layout.padded([len(PAIRS[i][0]) + 1 for i in rows], width)
    batch.output_layout = Layout.padded([len(PAIRS[i][1]) + 1 for i in rows], width)
    return batch


def test_s_loss_02_the_same_for_every_batch_size_and_padding(model: Any) -> None:
    """S-LOSS-02: four sentences in batches of 1, 2 and 4, and padded to 50 tokens."""
    alone = likelihood(model, [_batch([i]) for i in range(4)])
    for batches in ([_batch([0, 1]), _batch([2, 3])], [_batch([0, 1, 2, 3])], [_batch([3, 1, 0, 2], 50)]):
        found = likelihood(model, batches)
        assert found.loss == pytest.approx(alone.loss, abs=1e-5)
        assert found.perplexity == pytest.approx(alone.perplexity, rel=1e-5)
        assert (found.token_accuracy, found.tokens) == (alone.token_accuracy, alone.tokens)
    assert alone.tokens == sum(len(target) + 1 for _, target in PAIRS)


def test_it_is_the_loss_that_training_computes_without_smoothing(model: Any) -> None:
    batch = _batch([0, 1, 2, 3])
    found = likelihood(model, [batch])
    model.eval()
    layouts = {"layout": batch.layout, "output_layout": batch.output_layout}
    answer = model(batch.inputs, batch.outputs, targets=Targets(batch.targets), **layouts)
    ranked = model(batch.inputs, batch.outputs, **layouts).logits.argmax(-1)
    assert found.loss == pytest.approx(answer.loss_sum.item() / answer.count, abs=1e-5)
    assert found.perplexity == math.exp(found.loss)
    assert found.token_accuracy == int((ranked == batch.targets).sum()) / answer.count


def test_dropout_is_off_and_the_mode_comes_back(model: Any) -> None:
    model.train()
    batches = [_batch([0, 1, 2, 3])]
    assert likelihood(model, batches) == likelihood(model, batches)
    assert model.training
    model.eval()
    likelihood(model, batches)
    assert not model.training


def _logits(losses: list[float]) -> torch.Tensor:
    """Logits of two classes whose loss for class 0 is as given."""
    return torch.tensor([[[0.0, math.log(math.expm1(loss))]] for loss in losses])


def test_s_dist_02_the_mean_does_not_depend_on_the_number_of_processes() -> None:
    """S-DIST-02: losses 1, 1, 1, 1, 6 have the mean 2 for one process and for two, since no sentence is seen twice."""
    logits, targets = _logits([1, 1, 1, 1, 6]), torch.zeros(5, 1, dtype=torch.long)
    for world in (1, 2, 3):
        shares = [of_logits(logits[rank::world], targets[rank::world]) for rank in range(world)]
        found = sum(shares, Sums()).mean()
        assert found.loss == pytest.approx(2.0, abs=1e-6)
        assert found.tokens == 5


TWO = """
import sys, math, torch
from types import SimpleNamespace
from regard.batches.collate import Batch
from regard.evaluation.likelihood import likelihood
from regard.layout import Layout
rank, world, port = map(int, sys.argv[1:])
torch.set_num_threads(1)
if world > 1:
    torch.distributed.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
class Fixed(torch.nn.Module):
    device = torch.device("cpu")
    def forward(self, inputs, outputs, **layouts):
        losses = inputs[:, :1].double()
        return SimpleNamespace(logits=torch.stack([torch.zeros_like(losses), losses.expm1().log()], -1))
whole = Layout.unpadded(1)
zero = torch.zeros(1, 1, dtype=torch.long)
batches = [Batch(torch.tensor([[loss]]), whole, zero, whole, zero) for loss in (1, 1, 1, 1, 6)]
found = likelihood(Fixed(), batches, rank=rank, world=world)
print(round(found.loss, 5), found.tokens, flush=True)
if world > 1:
    torch.distributed.destroy_process_group()
"""


class Fixed(torch.nn.Module):
    """A model whose loss for class 0 is its input."""

    device = torch.device("cpu")

    def forward(self, inputs: torch.Tensor, outputs: torch.Tensor, **layouts: Any) -> Any:
        return SimpleNamespace(logits=_logits(inputs[:, 0].tolist()))


def _of_losses(losses: list[float]) -> list[Batch]:
    whole, zero = Layout.unpadded(1), torch.zeros(1, 1, dtype=torch.long)
    return [Batch(torch.tensor([[loss]]), whole, zero, whole, zero) for loss in losses]


def test_s_dist_02_each_rank_takes_its_share_and_has_the_mean_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """S-DIST-02: with the exchange played by hand, rank 0 of 2 adds exactly what it did not count itself."""

    def exchange(values: torch.Tensor) -> None:
        assert values.tolist() == pytest.approx([8, 0, 3], abs=1e-5)
        values += torch.tensor([2.0, 0.0, 2.0], dtype=values.dtype)

    monkeypatch.setattr(torch.distributed, "all_reduce", exchange)
    found = likelihood(Fixed(), _of_losses([1, 1, 1, 1, 6]), rank=0, world=2)
    assert (found.loss, found.tokens) == (pytest.approx(2.0, abs=1e-5), 5)


@pytest.mark.slow
def test_s_dist_02_two_real_processes_agree_with_one() -> None:
    """S-DIST-02: two processes over gloo give the mean of one."""
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = [sys.executable, "-c", TWO]
    runs = [
        subprocess.Popen([*command, str(rank), "2", port], stdout=subprocess.PIPE, encoding="utf-8") for rank in range(2)
    ]
    assert [run.communicate(timeout=120)[0] for run in runs] == ["2.0 5\n", "2.0 5\n"]


def test_nothing_predicted_has_no_likelihood(model: Any) -> None:
    with pytest.raises(ValueError, match="no token"):
        likelihood(model, [])


def test_a_hopeless_model_has_infinite_perplexity() -> None:
    assert Sums(loss=1e6, correct=0, tokens=1).mean().perplexity == math.inf


class Letters:
    """A tokenizer of small letters."""

    pad, unk, bos, eos = 0, 1, 2, 3

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [[4 + "abcdefgh".index(letter) for letter in text] for text in texts]


def test_pairs_of_text_become_batches_with_every_pair_once(model: Any) -> None:
    texts = [("abc", "de"), ("a", "cdefgh"), ("ef", "d"), ("abcde", "aaaa"), ("h", "h")]
    tokenizers = SimpleNamespace(source=Letters(), target=Letters())
    batches = list(pair_batches(tokenizers, texts, budget=14))
    assert len(batches) > 1
    assert sorted(i for batch in batches for i in batch.examples) == list(range(5))
    assert all(len(batch) == 1 or batch.targets.numel() <= 14 for batch in batches)
    one = likelihood(model, pair_batches(tokenizers, texts, budget=10_000))
    assert likelihood(model, batches).loss == pytest.approx(one.loss, abs=1e-5)
