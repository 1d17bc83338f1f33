"""What the parity tests share, as fixtures that give functions: tiny random models, and what each layer of them gives."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

torch.set_num_threads(1)  # tiny tensors: threads only wait for each other


def _recorded(modules: Iterable[nn.Module], call: Callable[[], Any]) -> tuple[Any, list[Tensor]]:
    found: list[Tensor] = []

    def keep(module: nn.Module, args: Any, out: Any) -> None:
        found.append(out[0] if isinstance(out, tuple) else out)

    hooks = [module.register_forward_hook(keep) for module in modules]
    try:
        with torch.no_grad():
            return call(), found
    finally:
        for hook in hooks:
            hook.remove()


@pytest.fixture
def recorded() -> Callable[..., tuple[Any, list[Tensor]]]:
    """recorded(modules, call) -> what `call()` gives, and what each of the modules gave meanwhile, in order."""
    return _recorded


@pytest.fixture
def hidden_states() -> Callable[..., tuple[Any, dict[str, list[Tensor]]]]:
    """hidden_states(model, *inputs, **named) -> the model's Answer, and of each half ("encoder", "decoder") that it has
    the embedding, then what each block gives, then the last norm's result if there is one."""

    def run(model: Any, *inputs: Any, **named: Any) -> tuple[Any, dict[str, list[Tensor]]]:
        halves = {name: half for name in ("encoder", "decoder") if (half := getattr(model, name)) is not None}
        counts, modules = {}, []
        for name, half in halves.items():
            its = [half.embed, *half.blocks, *([] if half.last_norm is None else [half.last_norm])]
            modules += its
            counts[name] = len(its)
        answer, found = _recorded(modules, lambda: model(*inputs, **named))
        states = {}
        for name, count in counts.items():
            states[name], found = found[:count], found[count:]
        return answer, states

    return run


@pytest.fixture
def randomised() -> Callable[..., Any]:
    """randomised(model, seed=7, spread=0.2) -> the model in eval mode, all its weights random, norms' gains around one."""

    def fill(model: Any, seed: int = 7, spread: float = 0.2) -> Any:
        generator = torch.Generator().manual_seed(seed)
        for name, tensor in model.named_parameters():
            gain = tensor.dim() == 1 and name.endswith("weight")
            tensor.data.copy_(torch.randn(tensor.shape, generator=generator) * spread + gain)
        return model.eval()

    return fill


def _padded_ids(side: str, pad: int, vocab: int, rows: int = 3, length: int = 40, first: int = 4) -> Tensor:
    ids = torch.randint(first, vocab, (rows, length), generator=torch.Generator().manual_seed(9))
    for row, count in enumerate((length, length - 7, 5)[:rows] if side != "no" else ()):
        if side == "left":
            ids[row, : length - count] = pad
        else:
            ids[row, count:] = pad
    return ids


@pytest.fixture
def padded_ids() -> Callable[..., Tensor]:
    """padded_ids(side, pad, vocab, rows=3, length=40, first=4) -> Int[rows length]: rows of 40, 33 and 5 tokens, padded on
    the "left" or the "right"; "no": all of them full. Real tokens go beyond position 30 and are never `pad` < first."""
    return _padded_ids
