"""The task of writing down what was read, which more than one lab sets."""

from __future__ import annotations

from typing import Any

import torch

from regard.architecture import Targets
from regard.labs.frame.train import answers

START, SYMBOLS = 0, 16
VOCAB = SYMBOLS + 1


def copying(source: torch.Generator, length: int, rows: int = 64) -> dict[str, Any]:
    """Texts Int[rows length] of random symbols, to be written again."""
    ids = torch.randint(1, VOCAB, (rows, length), generator=source)
    begin = torch.full((rows, 1), START)
    return {"inputs": ids, "outputs": torch.cat([begin, ids[:, :-1]], 1), "targets": Targets(ids)}


def copied(model: Any, length: int, seed: int, rows: int = 512) -> tuple[float, float]:
    """The share of symbols and of whole texts that are written right. The decoder reads the right symbols before each; a
    whole text is right then if and only if it is what the model writes by itself, the likeliest symbol each time."""
    said, wanted = answers(model, copying(torch.Generator().manual_seed(seed + 2), length, rows))
    same = said == wanted
    return float(same.float().mean()), float(same.all(1).float().mean())
