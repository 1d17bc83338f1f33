"""Muon: each hidden matrix moves by its gradient made orthogonal, everything else by Adam."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard.training.parallel import like, whole

Held = tuple[Tensor, Tensor, Sequence[int]]
"""A weight, what it is to be moved by, and the rows of each of the products that are fused in it."""
MOMENTUM = 0.95
ROOT_MEAN_SQUARE = 0.2
"""Size of a matrix's update, as a share of the learning rate: about Adam's, so that one rate serves both."""
POLYNOMIALS = (
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
)
"""The first three of the Polar Express (Amsel et al. 2025, with its safety factor): they bring singular values from 1/500
of the matrix's norm on between 0.19 and 1.87. Five iterations, as published with Muon, come closer to 1 and cost a tenth of
a training step more, for the same loss (docs/en/results.md)."""
TOGETHER = 1 << 25
"""Numbers that are made orthogonal together: many small matrices in one product, few large ones whole at a time."""


def orthogonal(x: Tensor) -> Tensor:
    """Float[... M N] -> the same with all singular values brought near 1: about U V^T of its singular value decomposition
    U S V^T, by three iterations x <- a x + b (x x^T) x + c (x x^T)^2 x."""
    turned = x.shape[-2] > x.shape[-1]
    x = x.mT if turned else x
    x = x / (1.01 * x.norm(dim=(-2, -1), keepdim=True)).clamp(min=1e-7)
    for a, b, c in POLYNOMIALS:
        square = x @ x.mT
        x = a * x + (b * square + c * (square @ square)) @ x
    return x.mT if turned else x


def hidden_matrices(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """The matrices between embeddings and heads, by name, with the rows of each of the products that are fused in it
    (query, key and value; the gates of a recurrent cell; gate and value of a feed-forward)."""
    found: dict[str, tuple[int, ...]] = {}
    fused: dict[str, tuple[int, ...]] = {}
    for path, module in model.named_modules():
        fused |= {f"{path}.{name}": rows for name, rows in getattr(module, "fused", {}).items()}
        if path.split(".")[0] not in ("encoder", "decoder") or ".embed" in path or isinstance(module, nn.Embedding):
            continue
        for name, weight in module.named_parameters(recurse=False):
            if weight.requires_grad and weight.dim() > 1:
                rows = weight.shape[-2]
                size = module.hidden_size if isinstance(module, nn.RNNBase) else rows
                found[f"{path}.{name}"] = (size,) * (rows // size)
    return {name: fused.get(name, rows) for name, rows in found.items()}


class Muon(torch.optim.Adam):
    """Muon (Jordan et al. 2024) for the parameters of groups that have "rows", fused Adam for the others.

    A matrix's momentum (Nesterov's, 0.95) is made orthogonal, so that it moves in all directions alike, and scaled to a
    root mean square of 0.2 × the learning rate (Liu et al. 2025), about what Adam does. Products fused in one parameter are
    made orthogonal each for itself: "rows" has, for each parameter, the rows of each. Newton-Schulz runs in the gradient's
    number type, not in bfloat16 as published, which CPUs are slow at. Weight decay is decoupled for matrices. Where FSDP
    cuts a matrix, each process puts its update together, makes it orthogonal and moves its own piece.
    """

    def __init__(self, groups: list[dict[str, Any]], lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, lr=lr, betas=betas, eps=eps, fused=True)
        self._step_supports_amp_scaling = False  # matrices are not Adam's: a scaler must look at the gradients itself

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Move all parameters that have a gradient."""
        every = self.param_groups
        self.param_groups = [group for group in every if "rows" not in group]
        try:
            loss = super().step(closure) if self.param_groups else None
        finally:
            self.param_groups = every
        for group in every:
            if "rows" in group:
                self._move(group)
        return loss

    def _move(self, group: dict[str, Any]) -> None:
        held: list[Held] = []
        for weight, rows in zip(group["params"], group["rows"], strict=True):
            if weight.grad is None:
                continue
            state = self.state[weight]
            if not state:
                state["momentum"] = torch.zeros_like(weight)
            momentum = state["momentum"].lerp_(weight.grad, 1.0 - MOMENTUM)
            if group["weight_decay"]:
                weight.mul_(1.0 - group["lr"] * group["weight_decay"])
            held.append((weight, whole(weight.grad.lerp(momentum, MOMENTUM)), rows))
            if sum(update.numel() for _, update, _ in held) >= TOGETHER:
                _apply(held, group["lr"])
                held = []
        _apply(held, group["lr"])


def _apply(held: list[Held], rate: float) -> None:
    """Make updates orthogonal and move the weights by them."""
    alike: dict[torch.Size, list[Tensor]] = defaultdict(list)
    for _, update, rows in held:
        for piece in _pieces(update, rows):
            alike[piece.shape].append(piece)
    for shape, pieces in alike.items():  # matrices of one shape in one product: small ones cost their overhead
        moves = orthogonal(torch.stack(pieces)) * (-rate * ROOT_MEAN_SQUARE * max(shape) ** 0.5)
        for piece, move in zip(pieces, moves.unbind(), strict=True):
            piece.copy_(move)
    for weight, update, _ in held:
        weight.add_(like(update, weight))


def _pieces(update: Tensor, rows: Sequence[int]) -> Iterator[Tensor]:
    """The matrices fused in one, and of stacked experts those of each, as views."""
    for part in update.split(list(rows), -2):
        if part.dim() == 2:
            yield part
        else:
            yield from part.flatten(0, -3).unbind()


def build_muon(model: nn.Module, settings: Any) -> Muon:
    """Muon by settings.{learning_rate, betas, eps, weight_decay}; betas and eps are Adam's. Embeddings, heads and vectors
    go to Adam, without weight decay."""
    hidden = hidden_matrices(model)
    matrices = [(p, hidden[name]) for name, p in model.named_parameters() if name in hidden]
    others = [p for name, p in model.named_parameters() if p.requires_grad and name not in hidden]
    groups: list[dict[str, Any]] = []
    if matrices:
        rows = [sizes for _, sizes in matrices]
        groups.append({"params": [p for p, _ in matrices], "rows": rows, "weight_decay": settings.weight_decay})
    if others:
        groups.append({"params": others, "weight_decay": 0.0})
    return Muon(groups, settings.learning_rate, (settings.betas[0], settings.betas[1]), settings.eps)
