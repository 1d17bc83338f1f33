"""The scores that came before the scaled dot product, behind the same `attend`: additive (Bahdanau et al. 2015), dot,
general and concat (Luong et al. 2015), and the fixed-length score over positions of many a tutorial.

Each body keeps Attend's promise, forward(q, k, v, mask, bias) and explain(q, k, mask, bias), and adds `keys(memory)`: the
keys [B 1 S d] that a recurrent decoder makes once for each memory. In multi-head attention the layer's own projections
make the keys.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from regard.layers.attention import Attend, for_each_head, weights_of, without_absent
from regard.layers.kernels import Dropout
from regard.layers.masks import Lowered
from regard.layers.part import part
from regard.layers.state import Memory


class Scored(nn.Module):
    """Attention whose score no fused body knows; `scores` is all that a kind of it adds."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)

    def keys(self, memory: Memory) -> Tensor:
        """Keys [B 1 S d] of a memory."""
        raise NotImplementedError

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """Float[B H Q K] of queries [B H Q d] against keys [B H K d]."""
        raise NotImplementedError

    def explain(self, q: Tensor, k: Tensor, mask: Lowered, bias: Tensor | None = None) -> Tensor:
        """Weights Float[B H Q K] of queries [B H Q d] over keys [B G K d]."""
        k = for_each_head(without_absent(k, mask.absent), q)
        scores = self.scores(q, k)
        return weights_of(scores if bias is None else scores + bias, mask.dense(q.shape[2], k.shape[2], q.device))

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Lowered, bias: Tensor | None = None) -> Tensor:
        """Weighted sums of the values [B G K d] for each query: Float[B H Q d]."""
        weights = self.dropout(self.explain(q, k, mask, bias))
        return weights @ for_each_head(without_absent(v, mask.absent), q)


class AdditiveAttend(Scored):
    """The module of Additive and Concat."""

    def __init__(self, head_dim: int, width: int, dropout: float) -> None:
        super().__init__(dropout)
        self.query = nn.Linear(head_dim, width)
        self.key = nn.Linear(head_dim, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def keys(self, memory: Memory) -> Tensor:
        """U k of each state: Float[B 1 S width]."""
        return self.key(memory.states)[:, None]

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """v·tanh(W q + U k), with U k already made."""
        # tanh(x) is 2 sigmoid(2x) - 1, and on a CPU a sigmoid takes a third of the time of a tanh.
        both = (k.unsqueeze(2) + self.query(q).unsqueeze(3)).mul_(2.0).sigmoid_()
        return 2.0 * self.score(both).squeeze(-1) - self.score.weight.sum()


class DotAttend(Attend):
    """The module of Dot and General: fused, for it is a dot product."""

    def __init__(self, head_dim: int, scale: float, dropout: float, general: bool = False) -> None:
        super().__init__(scale, dropout)
        self.key = nn.Linear(head_dim, head_dim, bias=False) if general else nn.Identity()

    def keys(self, memory: Memory) -> Tensor:
        """The states, or W k of each: Float[B 1 S d]."""
        return self.key(memory.states)[:, None]


class LocationAttend(Scored):
    """The module of Location. Its keys are the positions of the memory's tokens, Int[B 1 S 1]."""

    def __init__(self, head_dim: int, max_length: int, dropout: float) -> None:
        super().__init__(dropout)
        self.score = nn.Linear(head_dim, max_length)
        self.max_length = max_length

    def keys(self, memory: Memory) -> Tensor:
        """Positions Int[B 1 S 1]. ValueError if the memory is longer than the scores reach."""
        if memory.layout.longest > self.max_length:
            raise ValueError(
                f"a sentence of {memory.layout.longest} tokens, but this model's location attention scores "
                f"{self.max_length} positions at most (max_length)"
            )
        return memory.layout.position.expand(memory.states.shape[0], -1)[:, None, :, None]

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """One output of the linear layer for each position."""
        return self.score(q).gather(-1, k.transpose(-1, -2).expand(-1, -1, q.shape[2], -1))


class Score(Protocol):
    """A description of attention's score for a recurrent decoder. reads_token: a query is the embedded token and the state
    side by side, not the state alone; head_dim is the query's width."""

    reads_token: bool

    def build(self, head_dim: int, dropout: float) -> nn.Module: ...


@part
class Additive:
    """v·tanh(W q + U k) (Bahdanau et al. 2015, appendix A.1.2). width: of the tanh, None for the query's."""

    width: int | None = None

    reads_token = False

    def build(self, head_dim: int, dropout: float) -> AdditiveAttend:
        return AdditiveAttend(head_dim, self.width or head_dim, dropout)


@part
class Concat:
    """v·tanh(W [q; k]) (Luong et al. 2015, section 3.1): a matrix over both is one over each, added, so the module is that
    of Additive. The two papers differ in when they ask; see RecurrentDecoder.query."""

    width: int | None = None

    reads_token = False

    def build(self, head_dim: int, dropout: float) -> AdditiveAttend:
        return AdditiveAttend(head_dim, self.width or head_dim, dropout)


@part
class Dot:
    """q·k (Luong et al. 2015, section 3.1), or q·k / sqrt(d) if `scaled` (Vaswani et al. 2017)."""

    scaled: bool = False

    reads_token = False

    def build(self, head_dim: int, dropout: float) -> DotAttend:
        return DotAttend(head_dim, head_dim**-0.5 if self.scaled else 1.0, dropout)


@part
class General:
    """q·W k (Luong et al. 2015, section 3.1)."""

    reads_token = False

    def build(self, head_dim: int, dropout: float) -> DotAttend:
        return DotAttend(head_dim, 1.0, dropout, general=True)


@part
class Location:
    """softmax(W [embedded token; state] + b) over positions 0 … max_length-1 of the memory: what is asked decides where to
    look, and what stands there is not read. Positions past the sentence's end get no weight."""

    max_length: int = 100

    reads_token = True

    def build(self, head_dim: int, dropout: float) -> LocationAttend:
        return LocationAttend(head_dim, self.max_length, dropout)
