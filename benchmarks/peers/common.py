"""What the workers share: the exported data, batches of a token budget, segments of updates. Knows no library but torch."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import Run, gemm_rate, peak

SEGMENT = 5


def halves(shape: dict[str, Any]) -> dict[str, Any]:
    """A shape as transformers' configurations of encoder-decoders say it."""
    told = {"layers": shape["num_layers"], "attention_heads": shape["num_heads"], "ffn_dim": shape["d_ff"]}
    return {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in told.items()}


class Data:
    """A folder that `benchmarks.data.export` made."""

    def __init__(self, folder: str | Path) -> None:
        ids = json.loads((Path(folder) / "ids.json").read_text(encoding="utf-8"))
        about = json.loads((Path(folder) / "vocabulary.json").read_text(encoding="utf-8"))
        self.pieces: list[str] = about["pieces"]
        self.pad, self.bos, self.eos = about["pad"], about["bos"], about["eos"]
        self.train = list(zip(ids["train.en"], ids["train.fr"]))

    def padded(self, rows: list[list[int]], fill: int) -> Tensor:
        """Int[rows, longest]."""
        most = max(map(len, rows))
        return torch.tensor([row + [fill] * (most - len(row)) for row in rows])

    def batches(self, budget: int, seed: int = 1) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Inputs, decoder inputs and targets (-100 at padding): rows × the longer side ≤ budget, like lengths together, the
        batches shuffled; the same cut as regard's own."""
        drawn = random.Random(seed)
        while True:
            order = list(range(len(self.train)))
            drawn.shuffle(order)
            order.sort(key=lambda n: (len(self.train[n][1]), len(self.train[n][0])))
            cut: list[list[int]] = [[]]
            widest = 0
            for n in order:
                width = max(map(len, self.train[n])) + 1
                if cut[-1] and max(widest, width) * (len(cut[-1]) + 1) > budget:
                    cut.append([])
                    widest = 0
                cut[-1].append(n)
                widest = max(widest, width)
            drawn.shuffle(cut)
            for group in cut:
                rows = [self.train[n] for n in group]
                yield (
                    self.padded([[*source, self.eos] for source, _ in rows], self.pad),
                    self.padded([[self.bos, *target] for _, target in rows], self.pad),
                    self.padded([[*target, self.eos] for _, target in rows], -100),
                )


def measured(update: Callable[[], tuple[int, int]], updates: int, warm: int, model: nn.Module) -> Run:
    """Run updates, each of which says how many real source and target tokens it read: rates of the median segment."""
    rates: list[tuple[float, float]] = []
    tokens, began = [0, 0], time.perf_counter()
    for number in range(1, warm + updates + 1):
        source, target = update()
        tokens = [tokens[0] + source, tokens[1] + target]
        if number <= warm:
            tokens, began = [0, 0], time.perf_counter()
        elif (number - warm) % SEGMENT == 0 or number == warm + updates:
            seconds = time.perf_counter() - began
            rates.append((tokens[1] / seconds, tokens[0] / seconds))
            tokens, began = [0, 0], time.perf_counter()
    middle = sorted(rates)[len(rates) // 2]
    weights = sum(p.numel() for p in model.parameters())
    return {"target": middle[0], "source": middle[1], "peak_mib": peak(), "weights": weights, "gemm": gemm_rate()}


def plain_loop(
    model: nn.Module, logits_of: Callable[[Tensor, Tensor], Tensor], data: Data, budget: int, updates: int, warm: int
) -> Run:
    """Adam and torch's own label-smoothed cross entropy, as tutorials have it."""
    model.train()
    batches = data.batches(budget)
    steps = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def update() -> tuple[int, int]:
        inputs, outputs, targets = next(batches)
        logits = logits_of(inputs, outputs)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-100, label_smoothing=0.1)
        loss.backward()
        steps.step()
        steps.zero_grad()
        return int((inputs != data.pad).sum()), int((targets != -100).sum())

    return measured(update, updates, warm, model)
