"""What a model answers with, and the loss against what it should have answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor, nn

from regard.layers.kernels import linear_cross_entropy
from regard.layers.part import part
from regard.layout import Layout

IGNORED = -100
"""Target id of a position that is not predicted."""


@dataclass(frozen=True, eq=False)
class Targets:
    """What should be answered. ids: Int[B T], IGNORED where nothing is predicted (padding among it). smoothing: the
    share e of label smoothing, (1-e) on the target and e/V on every class (Szegedy et al. 2016)."""

    ids: Tensor
    smoothing: float = 0.0


@dataclass(eq=False)
class Answer:
    """logits: Float[B T V], None where targets were given. loss_sum: sum of the loss over predicted positions.
    count: how many there were. penalties: what else the training should hold down, by name."""

    logits: Tensor | None = None
    loss_sum: Tensor | None = None
    count: int = 0
    penalties: dict[str, Tensor] = field(default_factory=dict)


@part
class NextToken:
    """A linear layer from hidden vectors to `vocab_size` logits."""

    vocab_size: int
    bias: bool = False

    def build(self, d_model: int) -> TokenHead:
        return TokenHead(self, d_model)


class TokenHead(nn.Module):
    """The module of NextToken."""

    def __init__(self, its: NextToken, d_model: int) -> None:
        super().__init__()
        self.project = nn.Linear(d_model, its.vocab_size, its.bias)

    def forward(self, hidden: Tensor, layout: Layout, targets: Targets | None = None) -> Answer:
        """Float[B T D] -> logits, or with targets the summed loss of the predicted positions alone, whose logits never
        exist all at once."""
        if targets is None:
            return Answer(self.project(hidden))
        chosen = (targets.ids != IGNORED).flatten().nonzero().squeeze(1)
        ids = targets.ids.flatten()[chosen]
        rows = hidden.flatten(0, 1)[chosen]
        loss = linear_cross_entropy(rows, self.project.weight, self.project.bias, ids, targets.smoothing)
        return Answer(loss_sum=loss, count=len(ids))
