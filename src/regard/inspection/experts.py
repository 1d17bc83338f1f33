"""Mixtures of experts: where the router sent each token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Route:
    """One layer's: share Float[T E], the router's softmax; chosen Int[T k], the best expert first; load: of each expert, its
    share of all choices."""

    share: Tensor
    chosen: Tensor

    @property
    def load(self) -> list[float]:
        counts = torch.bincount(self.chosen.flatten(), minlength=self.share.shape[1]).float()
        return (counts / counts.sum().clamp(min=1)).tolist()


def mixtures(model: nn.Module) -> dict[str, Any]:
    """The layers of experts of a model, by their names."""
    return {name: its for name, its in model.named_modules() if hasattr(its, "router") and hasattr(its, "active")}


@contextmanager
def routes(model: nn.Module) -> Iterator[dict[str, Route]]:
    """The routes of the tokens of one text that is read within the block, filled in as it is read."""
    found: dict[str, Route] = {}

    def hook(name: str, layer: Any) -> Any:
        def note(_: nn.Module, __: Any, logits: Tensor) -> None:
            chosen, _ = layer.choose(logits.detach().flatten(0, 1))
            found[name] = Route(logits.detach().float().flatten(0, 1).softmax(-1), chosen)

        return note

    handles = [its.router.register_forward_hook(hook(name, its)) for name, its in mixtures(model).items()]
    try:
        yield found
    finally:
        for handle in handles:
            handle.remove()
