"""Feed-forward layers of which each token passes a few: a mixture of experts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.feedforward import Gated, activation
from regard.layers.frame import Frame
from regard.layers.kernels import Dropout, grouped_linear
from regard.layers.part import part
from regard.layout import Layout


@part
class Experts:
    """`count` gated layers, of which a router chooses `active` for each token; their results are weighted by the router's
    softmax over all experts, renormalised over the chosen (Jiang et al. 2024, "Mixtral of experts"). imbalance: how much
    uneven use of the experts weighs in training (Fedus et al. 2022, equations 4 to 6); 0: not at all. No token is dropped.
    """

    expert: Gated
    count: int = 8
    active: int = 2
    imbalance: float = 0.0

    def build(self, d_model: int) -> ExpertsFeedForward:
        return ExpertsFeedForward(self, d_model)


class ExpertsFeedForward(nn.Module):
    """The module of Experts. `expand` [E 2F D] and `contract` [E D F] hold the matrices of all experts.

    `slow` is the definition, `fast` what is used; both give the same.
    """

    def __init__(self, its: Experts, d_model: int) -> None:
        super().__init__()
        if not 1 <= its.active <= its.count:
            raise ValueError(f"active must lie between 1 and the {its.count} experts there are, not {its.active}")
        if its.expert.bias:
            raise ValueError("experts have no biases: Gated(bias=False)")
        self.count, self.active, self.coefficient = its.count, its.active, its.imbalance
        self.router = nn.Linear(d_model, its.count, bias=False)
        self.expand = nn.Parameter(torch.empty(its.count, 2 * its.expert.d_ff, d_model))
        self.contract = nn.Parameter(torch.empty(its.count, d_model, its.expert.d_ff))
        for tensor in (self.expand, self.contract):
            nn.init.normal_(tensor, std=tensor.shape[-1] ** -0.5)
        self.activation = activation(its.expert.activation)
        self.dropout = Dropout(its.expert.dropout)

    def choose(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Router's logits Float[N E] -> numbers Int[N k] of the experts of each token, the best first, and their weights
        Float[N k], which sum to one. In single precision at least."""
        share, chosen = logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32)).topk(self.active, -1)
        return chosen, share / share.sum(-1, keepdim=True)

    def slow(self, x: Tensor, chosen: Tensor, share: Tensor) -> Tensor:
        """Tokens Float[N D] through their experts, one expert after another: Float[N D]."""
        y = torch.zeros_like(x)
        for number in range(self.count):
            token, slot = (chosen == number).nonzero(as_tuple=True)
            gate, value = F.linear(x[token], self.expand[number]).chunk(2, -1)
            out = F.linear(self.dropout(self.activation(gate) * value), self.contract[number])
            y = y.index_add(0, token, (out * share[token, slot, None]).to(y.dtype))
        return y

    def fast(self, x: Tensor, chosen: Tensor, share: Tensor) -> Tensor:
        """The same with the tokens sorted by expert, so that each expert has its own in one piece."""
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=self.count)
        gate, value = grouped_linear(x[order // self.active], self.expand, counts).chunk(2, -1)
        out = grouped_linear(self.dropout(self.activation(gate) * value), self.contract, counts)
        back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return (out[back].unflatten(0, chosen.shape) * share[..., None]).sum(1).to(x.dtype)

    def forward(self, x: Tensor, frame: Frame | None = None) -> Tensor:
        """Float[B T D] -> Float[B T D]; the router's logits Float[B T E] go to frame.routed."""
        logits = self.router(x)
        if frame is not None:
            frame.routed.append(logits)
        chosen, share = self.choose(logits.flatten(0, 1))
        return self.fast(x.flatten(0, 1), chosen, share).view_as(x)

    def imbalance(self, routed: Sequence[Tensor], layout: Layout) -> Tensor:
        """coefficient × E × Σ over experts of (share of real tokens that chose it × mean probability), the mean over the
        layers whose router's logits Float[B T E] are given, times the number of real tokens: what training adds to its sum
        of losses.

        transformers takes shares and probabilities of all layers together, which one layer that leans on some experts and
        another that leans on others make even: experts that no token is sent to cost nothing then (docs/en/results.md).
        """
        logits = torch.stack([layer.to(torch.promote_types(layer.dtype, torch.float32)) for layer in routed])
        real = layout.real.expand(logits.shape[1], -1)
        odds = logits[:, real].softmax(-1)
        chosen = counted(odds, self.active) / odds.shape[1]
        return self.coefficient * self.count * (chosen * odds.mean(1)).sum(-1).mean() * real.sum()


def counted(logits: Tensor, active: int) -> Tensor:
    """How many of the tokens Float[... N E] each expert was chosen by: Float[... E]."""
    return torch.zeros_like(logits).scatter_(-1, logits.topk(active, -1).indices, 1.0).sum(-2)


class Load:
    """How often each expert was chosen. counts: Float[L E], by real tokens, for each layer of experts; None: nothing yet."""

    def __init__(self) -> None:
        self.counts: Tensor | None = None

    def add(self, layer: int, layers: int, counts: Tensor) -> None:
        """Count the choices Float[E] of one of so many layers."""
        if self.counts is None:
            self.counts = counts.new_zeros(layers, len(counts))
        self.counts[layer] += counts

    def shares(self) -> Tensor:
        """Float[L E]: the share of each expert in the choices of its layer; even use is 1/E. ValueError: nothing yet."""
        if self.counts is None:
            raise ValueError("no experts were used while their load was watched")
        return self.counts / self.counts.sum(-1, keepdim=True)


@contextmanager
def expert_load(model: nn.Module) -> Iterator[Load]:
    """Watch which experts are chosen by what is read within the block: `with expert_load(model) as load: …`."""
    load, layers = Load(), [module for module in model.modules() if isinstance(module, ExpertsFeedForward)]

    def note(number: int, module: Any, args: tuple[Any, ...]) -> None:
        frame = args[1]
        logits = frame.routed[-1].detach()
        real = frame.layout.real.expand(logits.shape[0], -1)
        load.add(number, len(layers), counted(logits[real].float(), module.active))

    def hook(number: int) -> Any:
        return lambda module, args, out: note(number, module, args)

    hooks = [module.register_forward_hook(hook(number)) for number, module in enumerate(layers)]
    try:
        yield load
    finally:
        for handle in hooks:
            handle.remove()
