"""Initial weights, as published."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode


def _bound(rows: int, columns: int) -> float:
    return math.sqrt(6.0 / (rows + columns))


@torch.no_grad()
def glorot_(model: nn.Module) -> None:
    """Matrices uniform after Glorot & Bengio 2010, biases zero, norms one, embeddings normal with 1/sqrt(d_model).

    The 2017 paper is silent; this is what its authors' and fairseq's code do. A fused q/k/v product counts as one matrix
    (its bound is 1/sqrt(2) of a square one's), which keeps first attention weights even.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight.uniform_(-1, 1).mul_(_bound(*module.weight.shape))
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, nn.Embedding):
            module.weight.normal_(0.0, module.embedding_dim**-0.5)


RESIDUAL = ("attention.output.weight", "cross.output.weight", "feedforward.contract.weight", "feedforward.contract")


@torch.no_grad()
def normal_(model: nn.Module, spread: float = 0.02, residual: bool = False) -> None:
    """Matrices and tables normal with this deviation, biases zero, norms one (Radford et al. 2018, Devlin et al. 2019).

    residual: what is added to the residual stream is divided by the root of the number of such additions (Radford et al.
    2019, section 2.3).
    """
    added = [name for name, _ in model.named_parameters() if name.endswith(RESIDUAL)] if residual else []
    for name, tensor in model.named_parameters():
        if tensor.dim() > 1:
            tensor.normal_(0.0, spread / math.sqrt(len(added)) if name in added else spread)
        elif name.endswith("bias"):
            tensor.zero_()


DRAWS = {
    nn.init.normal_,
    nn.init.uniform_,
    nn.init.kaiming_uniform_,
    nn.init.orthogonal_,
    nn.init.xavier_uniform_,
    torch.Tensor.normal_,
    torch.Tensor.uniform_,
}
"""What draws initial weights."""


class Uninitialised(TorchFunctionMode):
    """Within it modules are built without drawing initial weights: for models whose weights are read, or never used."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in DRAWS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))
