"""LoRA: low-rank updates beside frozen matrices (Hu et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.errors import UserError
from regard.layers.kernels import Dropout


class Update(nn.Module):
    """What is added to rows `first` to `after` of a matrix: alpha / rank × b a, with a drawn and b zero at first."""

    def __init__(self, width: int, first: int, after: int, rank: int, alpha: float, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.after, self.rank, self.alpha = first, after, rank, alpha
        self.a = nn.Parameter(torch.empty(rank, width))
        self.b = nn.Parameter(torch.zeros(after - first, rank))
        nn.init.kaiming_uniform_(self.a, math.sqrt(5))  # as peft draws it
        self.dropout = Dropout(dropout)

    @property
    def scale(self) -> float:
        """What the product counts."""
        return self.alpha / self.rank

    def matrix(self) -> Tensor:
        """The update as one matrix Float[after - first, width]."""
        return (self.b @ self.a) * self.scale

    def forward(self, x: Tensor) -> Tensor:
        """Float[… width] -> Float[… after - first]."""
        return F.linear(F.linear(self.dropout(x), self.a), self.b) * self.scale


class Adapted(nn.Linear):
    """A linear layer with updates of some of its rows. Weight and bias keep their names and are frozen."""

    def __init__(self, base: nn.Linear) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features = base.in_features, base.out_features
        self.weight, self.bias = base.weight, base.bias
        self.updates = nn.ModuleDict()
        self.kept: Tensor | None = None

    def add(self, name: str, update: Update) -> None:
        """Hold one more update, where the weight is and of its number type."""
        self.updates[name] = update.to(self.weight.device, self.weight.dtype).train(self.training)

    @property
    def parts(self) -> list[tuple[str, Update]]:
        """The updates by name."""
        return list(self.updates.items())  # type: ignore[arg-type]

    def merged_weight(self) -> Tensor:
        """The weight with its updates in it."""
        weight = (self.weight if self.kept is None else self.kept).detach().clone()
        for _, update in self.parts:
            weight[update.first : update.after] += update.matrix().detach().to(weight.dtype)
        return weight

    @torch.no_grad()
    def merge(self) -> None:
        """Put the updates into the weight: from now on they cost nothing."""
        if self.kept is None:
            merged = self.merged_weight()
            self.kept = self.weight.detach().clone()
            self.weight.copy_(merged)

    @torch.no_grad()
    def unmerge(self) -> None:
        """Take them out again, to the last bit."""
        if self.kept is not None:
            self.weight.copy_(self.kept)
            self.kept = None

    def forward(self, input: Tensor) -> Tensor:
        """Float[… in] -> Float[… out]."""
        y = F.linear(input, self.weight, self.bias)
        if self.kept is None:
            for _, update in self.parts:
                y = y + F.pad(update(input), (update.first, self.out_features - update.after))
        return y


def adapt(model: nn.Module, targets: Sequence[str], rank: int, alpha: float, dropout: float = 0.0) -> list[str]:
    """Put updates beside every matrix that a target names, and freeze all else. targets: "q", "k", "v" (rows of attention's
    fused products, or matrices of that name), or the last part of a layer's name ("qkv", "output", "expand"). Gives the
    names of what is adapted; UserError for a target that names nothing, or a matrix that is tied to another."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    found: list[str] = []
    missing = set(targets)
    for name, layer in list(_linear(model)):
        slices = rows_of(model, name)
        for target in targets:
            if target in slices:
                first, after = slices[target]
                adapted = adapted_layer(model, name)
                update = Update(layer.in_features, first, after, rank, alpha, dropout)
                adapted.add(target, update)
                found.append(f"{name}.{target}" if (first, after) != (0, layer.out_features) else name)
                missing.discard(target)
    if missing:
        known = sorted({part for name, _ in _linear(model) for part in rows_of(model, name)})
        raise UserError(
            f"training.lora.targets: no matrix is called {', '.join(sorted(missing))}; there are {', '.join(known)}"
        )
    return found


def _linear(model: nn.Module) -> Iterator[tuple[str, nn.Linear]]:
    """The linear layers that may be adapted: not those whose matrix is an embedding too."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and id(module.weight) not in tables:
            yield name, module


def rows_of(model: nn.Module, name: str) -> dict[str, tuple[int, int]]:
    """The parts of a linear layer that may be updated: all its rows by the last part of its name, and in a fused product of
    attention the rows of q, k and v."""
    layer = model.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    path, _, last = name.rpartition(".")
    rows = layer.out_features
    parts = {last: (0, rows)}
    if last == "qkv":
        attention = model.get_submodule(path)
        inner = int(attention.num_heads) * int(attention.head_dim)  # type: ignore[arg-type]
        shared = (rows - inner) // 2
        parts |= {"q": (0, inner), "k": (inner, inner + shared), "v": (inner + shared, rows)}
    elif last == "kv":
        parts |= {"k": (0, rows // 2), "v": (rows // 2, rows)}
    return parts


def adapted_layer(model: nn.Module, name: str) -> Adapted:
    """The layer of that name, made to hold updates if it does not yet."""
    layer = model.get_submodule(name)
    if isinstance(layer, Adapted):
        return layer
    assert isinstance(layer, nn.Linear)
    new = Adapted(layer).train(layer.training)
    path, _, last = name.rpartition(".")
    setattr(model.get_submodule(path), last, new)
    return new


def adapted(model: nn.Module) -> dict[str, Adapted]:
    """The layers of a model that hold updates, by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, Adapted)}


def merge(model: nn.Module) -> None:
    """Put all updates into the weights."""
    for layer in adapted(model).values():
        layer.merge()


def unmerge(model: nn.Module) -> None:
    """Take them out again; the weights are what they were, bit for bit."""
    for layer in adapted(model).values():
        layer.unmerge()
