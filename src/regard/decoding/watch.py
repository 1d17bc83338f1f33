"""How much each token that is written looks at each source token: read off the decoder's `attend` while it works."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.layout import Layout


class Watch:
    """The weights of the last layer, the mean over its heads; in an ensemble the mean over the members that look. Only of
    what this thread asks the model: others may search with it at the same time."""

    def __init__(self) -> None:
        self.last: dict[nn.Module, Tensor] = {}
        self.thread = get_ident()

    def see(self, module: Any, arguments: tuple[Any, ...], output: Tensor) -> None:
        """A hook behind an `attend`."""
        if get_ident() != self.thread:
            return
        q, k, _, mask, *bias = arguments
        self.last[module] = module.explain(q, k, mask, *bias).mean(1)

    @property
    def step(self) -> Tensor:
        """Float[R S]: the weights of a step of one token a row."""
        if not self.last:
            raise RuntimeError("the decoder has not looked at its memory yet")
        return torch.stack([weights.flatten(0, 1) for weights in self.last.values()]).mean(0)


_LOOKS = re.compile(r"(.*\.)?decoder\.(attend|.*\.cross\.attend)\Z")


def looks(model: nn.Module) -> list[nn.Module]:
    """The `attend` modules through which a model's decoder looks at the memory, first layer first."""
    return [module for name, module in model.named_modules() if _LOOKS.match(name)]


def last_looks(model: nn.Module) -> list[nn.Module]:
    """The last of them; of an ensemble the last of each member that has one."""
    found = ((_LOOKS.match(name), module) for name, module in model.named_modules())
    return list({match[1]: module for match, module in found if match}.values())


@contextmanager
def hooked(model: nn.Module, watch: Watch) -> Iterator[None]:
    """`watch` sees what the last looks of a model are given, within the block."""
    handles = [module.register_forward_hook(watch.see) for module in last_looks(model)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def watching(model: Any, why: str) -> Iterator[Watch]:
    """A Watch over a model. UserError if it does not look at its source; `why` says who needs it."""
    if model.encoder is None or not looks(model):
        raise UserError(f"{why} needs attention over the source, which this model does not have")
    watch = Watch()
    with hooked(model, watch):
        yield watch


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


class Cover:
    """How much of its source each beam has looked at. real: Bool[S T] of the sources."""

    def __init__(self, watch: Watch, real: Tensor, penalty: float) -> None:
        self.watch, self.real, self.penalty = watch, real, penalty
        self.seen = torch.zeros(real.shape, device=real.device)

    def look(self) -> None:
        """Add what was looked at in the last step."""
        self.seen = self.seen + self.watch.step

    def bonus(self, beams: Tensor, sentences: Tensor) -> list[float]:
        """What the coverage of these beams, of these sentences of the whole batch, adds to their scores."""
        return (self.penalty * coverage(self.seen[beams], self.real[sentences])).tolist()
