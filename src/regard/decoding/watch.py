"""How much each token that is written looks at each source token: read off the decoder's `attend` while it works."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.layout import Layout


class Watch:
    """weights: Float[R S] of the last step, or Float[B T S] of a pass; the mean over the heads of the last layer."""

    def __init__(self) -> None:
        self.weights: Tensor | None = None

    def _see(self, module: Any, arguments: tuple[Any, ...], output: Tensor) -> None:
        q, k, _, mask, *bias = arguments
        self.weights = module.explain(q, k, mask, *bias).mean(1)

    @property
    def step(self) -> Tensor:
        """Float[R S]: the weights of a step of one token a row."""
        if self.weights is None:
            raise RuntimeError("the decoder has not looked at its memory yet")
        return self.weights.flatten(0, 1)


def looks(model: nn.Module) -> list[nn.Module]:
    """The `attend` modules through which a model's decoder looks at the memory, first layer first."""
    named = ((name, module) for name, module in model.named_modules() if name.startswith("decoder."))
    return [module for name, module in named if name == "decoder.attend" or name.endswith(".cross.attend")]


@contextmanager
def watching(model: Any, why: str) -> Iterator[Watch]:
    """A Watch over the last such module. UserError if the model has none; `why` says who needs it."""
    found = looks(model)
    if model.encoder is None or not found:
        raise UserError(f"{why} needs attention over the source, which this model does not have")
    watch = Watch()
    handle = found[-1].register_forward_hook(watch._see)
    try:
        yield watch
    finally:
        handle.remove()


def coverage(seen: Tensor, real: Tensor) -> Tensor:
    """Σ over source tokens of log min(attention they had in all, 1) (Wu et al. 2016, equation 14): Float[R] from sums of
    weights [R S] and Bool[R S], False at padding. A token that had none counts as 1e-9."""
    return seen.masked_fill(~real, 1.0).clamp(1e-9, 1.0).log().sum(1)


def most_attended(model: Any, source: Sequence[int], ids: Sequence[int], bos: int) -> list[int]:
    """For each of the tokens `ids` the place in `source` (input ids with their end mark) that the decoder looked at most
    when it wrote it, the end mark left aside. Empty if the source is nothing but an end mark.

    One pass over one sentence. UserError if the model does not look at its source.
    """
    if len(source) < 2 or not ids:
        return []
    inputs, outputs = (torch.tensor([list(t)], device=model.device) for t in (source, [bos, *ids[:-1]]))
    rows = []
    with watching(model, "replacing unknown words") as watch, torch.inference_mode():
        state = model.start(model.encode(inputs, Layout.unpadded(len(source), device=model.device)), len(ids))
        for token in outputs[0]:
            model.step(token.view(1, 1), state)
            rows.append(watch.step[0, : len(source) - 1])
    return torch.stack(rows).argmax(1).tolist()
