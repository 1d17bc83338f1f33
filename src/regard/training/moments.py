"""What the forward and the backward of a batch hold beside the weights, from one moment to the next."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter


class Moment(NamedTuple):
    """Bytes at one time of a backward. activations: all tensors but weights, their copies of another number type, and
    gradients that are complete. open: complete gradients of weights in blocks that the backward has not left yet, or in
    no block. closed: those of blocks that it has left."""

    activations: int
    open: int
    closed: int


@dataclass(frozen=True)
class Held:
    """What a forward and a backward hold. moments: for each number of blocks that the backward has left those with the
    largest activations, alone and with open gradients; none is in all three numbers below another. copies: bytes of
    weights in the number type of the products, 0 where that is the weights' own."""

    moments: tuple[Moment, ...]
    copies: int

    @property
    def activations(self) -> int:
        """The most bytes of activations at a time."""
        return max((one.activations for one in self.moments), default=0)


def held_by(model: nn.Module, blocks: Sequence[nn.Module], work: Callable[[], object]) -> Held:
    """What `work()`, a forward and a backward of one batch, holds at a time. blocks: parts of the model that it passes one
    after the other. Gradients are not there before, and are dropped afterwards."""
    model.zero_grad(set_to_none=True)
    watch = _Watch(model, blocks)
    try:
        with watch.on_gradients(), watch:
            work()
    finally:
        model.zero_grad(set_to_none=True)
    return Held(tuple(_undominated(watch.most.values())), watch.copies)


def _undominated(moments: Iterable[Moment]) -> Iterator[Moment]:
    some = set(moments)
    for one in sorted(some, key=lambda moment: moment.closed):
        if not any(one != other and all(a <= b for a, b in zip(one, other, strict=True)) for other in some):
            yield one


class _Watch(TorchDispatchMode):
    """Counts the storages that operations make, until nothing holds them any more."""

    def __init__(self, model: nn.Module, blocks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.model = model
        self.block_of = {id(p): number for number, block in enumerate(blocks) for p in block.parameters()}
        self.missing = [sum(p.requires_grad for p in block.parameters()) for block in blocks]
        self.bytes_of = [0 for _ in blocks]
        self.weights = {p.untyped_storage().data_ptr() for p in model.parameters()}
        self.live: dict[int, int] = {}
        self.now = self.copies = self.open = self.closed = 0
        self.most: dict[tuple[int, int], Moment] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        copied = func is torch.ops.aten._to_copy.default and _address(args[0]) in self.weights
        for tensor in tree_iter(made):
            if isinstance(tensor, Tensor) and _address(tensor) not in self.weights:
                self._count(tensor, copied)
        self._note(Moment(self.now, self.open, self.closed))
        return made

    def _note(self, moment: Moment) -> None:
        for parts in (1, 2):  # activations; activations and open gradients
            before = self.most.get((moment.closed, parts))
            if before is None or sum(moment[:parts]) > sum(before[:parts]):
                self.most[moment.closed, parts] = moment

    def _count(self, tensor: Tensor, copied: bool) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.live:
            return
        # a copy of a weight is counted for itself: it does not grow with the batch, and FSDP has it in place of the weight
        self.live[key] = 0 if copied else storage.nbytes()
        self.copies += storage.nbytes() if copied else 0
        self.now += self.live[key]
        weakref.finalize(storage, self._drop, key)

    def _drop(self, key: int) -> None:
        self.now -= self.live.pop(key)

    @contextmanager
    def on_gradients(self) -> Iterator[None]:
        """Within, gradients are told from activations as soon as they are complete."""
        learned = [p for p in self.model.parameters() if p.requires_grad]
        hooks = [p.register_post_accumulate_grad_hook(self._complete) for p in learned]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _complete(self, weight: Tensor) -> None:
        assert weight.grad is not None
        key, size = weight.grad.untyped_storage()._cdata, weight.grad.nbytes
        counted = min(size, self.live.get(key, 0))
        self.now -= counted
        if counted:
            self.live[key] -= counted
        self.open += size
        number = self.block_of.get(id(weight))
        if number is None:
            return
        self.missing[number] -= 1
        self.bytes_of[number] += size
        if not self.missing[number]:
            self.open -= self.bytes_of[number]
            self.closed += self.bytes_of[number]


def _address(value: Any) -> int:
    return value.untyped_storage().data_ptr() if isinstance(value, Tensor) else 0
