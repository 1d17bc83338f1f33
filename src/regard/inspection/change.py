"""Changing what heads say, and putting it back: what a model does without a head shows what the head is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from regard.inspection.tape import attentions


@contextmanager
def gate_heads(model: nn.Module, gates: Mapping[str, Mapping[int, float]]) -> Iterator[None]:
    """Multiply what heads give by a factor within the block: {attention's name: {head: factor}}, 0 for silence.

    A factor of 1 changes nothing, bit for bit; 0 equals zeros in the head's columns of the output projection. At the end of
    the block, by an error too, the model is as before. ValueError: no attention of that name, no head of that number.
    """
    found = attentions(model)
    for name, factors in gates.items():
        if name not in found:
            raise ValueError(f"no attention is called {name!r}; there are {', '.join(found) or 'none'}")
        count = getattr(model.get_submodule(name.rpartition(".")[0]), "num_heads", 1)
        wrong = [head for head in factors if not 0 <= head < count]
        if wrong:
            raise ValueError(f"{name} has heads 0 to {count - 1}, not {wrong[0]}")
    hooks = [found[name].register_forward_hook(_gate(factors)) for name, factors in gates.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _gate(factors: Mapping[int, float]) -> Any:
    def hook(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        gate = output.new_tensor([factors.get(head, 1.0) for head in range(output.shape[1])])
        return output * gate[:, None, None]

    return hook
