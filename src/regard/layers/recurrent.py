"""Recurrent layers: one token after another through a state. Here the cells and the encoder; the decoder is beside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.layers.embeddings import Tokens
from regard.layers.kernels import Dropout
from regard.layers.part import part
from regard.layers.state import Memory
from regard.layout import Layout

Cell = Literal["rnn", "gru", "lstm"]
Hidden = tuple[Tensor, ...]
"""What one layer remembers: (h,) or, of an LSTM, (h, c), each Float[R H]."""

CELLS: dict[str, Callable[..., nn.RNNBase]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def layers_of(cell: Cell, first: int, width: int, count: int, both_ways: bool = False) -> nn.ModuleList:
    """`count` recurrent layers of `width` (each direction has half of it if `both_ways`) over inputs of width `first`."""
    if cell not in CELLS:
        raise ValueError(f"cell must be 'rnn', 'gru' or 'lstm', not {cell!r}")
    if count < 1:
        raise ValueError(f"num_layers must be at least 1, not {count}")
    if both_ways and width % 2:
        raise ValueError(f"d_model {width} is odd: two directions cannot have half of it each")
    each = width // 2 if both_ways else width
    return nn.ModuleList(
        CELLS[cell](width if number else first, each, batch_first=True, bidirectional=both_ways) for number in range(count)
    )


def through(layer: Any, x: Any, hidden: Any = None) -> tuple[Any, Any]:
    """What torch's recurrent layer gives, under a CPU's autocast in the weights' precision: oneDNN's LSTM has no other way
    on many a CPU."""
    if not torch.is_autocast_enabled("cpu") or layer.weight_hh_l0.device.type != "cpu":
        return layer(x, hidden)
    kind = layer.weight_hh_l0.dtype
    with torch.autocast("cpu", enabled=False):
        same = tuple(t.to(kind) for t in hidden) if isinstance(hidden, tuple) else hidden
        return layer(x.to(kind), same.to(kind) if isinstance(same, Tensor) else same)


def run(layer: Any, x: Tensor, hidden: Hidden) -> tuple[Tensor, Hidden]:
    """A one-way layer over all of x: Float[R T W] from a state: Float[R T H] and the state after it."""
    first = tuple(t[None].contiguous() for t in hidden)
    states, last = through(layer, x, first if len(first) == 2 else first[0])
    return states, tuple(t[0] for t in (last if isinstance(last, tuple) else (last,)))


def _rnn(given: Tensor, hidden: Hidden, layer: Any) -> Hidden:
    return ((given + F.linear(hidden[0], layer.weight_hh_l0, layer.bias_hh_l0)).tanh_(),)


def _gru(given: Tensor, hidden: Hidden, layer: Any) -> Hidden:
    h, width = hidden[0], layer.hidden_size
    gates, new = given.split([2 * width, width], -1)
    own_gates, own_new = F.linear(h, layer.weight_hh_l0, layer.bias_hh_l0).split([2 * width, width], -1)
    reset, update = (gates + own_gates).sigmoid_().chunk(2, -1)
    new = torch.addcmul(new, reset, own_new).tanh_().to(h.dtype)  # products may be in half precision, the state is not
    return (torch.lerp(new, h, update.to(h.dtype)),)


def _lstm(given: Tensor, hidden: Hidden, layer: Any) -> Hidden:
    h, c = hidden
    gates = given + F.linear(h, layer.weight_hh_l0, layer.bias_hh_l0)
    enter, forget, new, leave = gates.chunk(4, -1)
    c = torch.addcmul(forget.sigmoid() * c, enter.sigmoid(), new.tanh())
    return leave.sigmoid() * c.tanh(), c


STEPS: dict[str, Callable[[Tensor, Hidden, Any], Hidden]] = {"rnn": _rnn, "gru": _gru, "lstm": _lstm}
"""One step of a layer: from what its input gives the gates, W x + b: Float[R G·H], and its state to its next state."""


@part
class Recurrent:
    """An encoder of recurrent layers: tanh units ("rnn", Elman 1990), "gru" (Cho et al. 2014) or "lstm" (Hochreiter and
    Schmidhuber 1997). both_ways: each layer has two directions of d_model / 2 (Schuster and Paliwal 1997). dropout:
    between layers, not from step to step (Zaremba et al. 2014). d_embed: width of the embeddings, None for d_model.
    limit: most tokens that the attention over it can score, None if there is no end.
    """

    d_model: int
    embed: Tokens
    cell: Cell = "gru"
    num_layers: int = 1
    both_ways: bool = True
    dropout: float = 0.0
    d_embed: int | None = None
    limit: int | None = None

    def build_encoder(self) -> RecurrentEncoder:
        return RecurrentEncoder(self)


class RecurrentEncoder(nn.Module):
    """The module of Recurrent."""

    packs = False

    def __init__(self, its: Recurrent) -> None:
        super().__init__()
        self.d_model, self.limit = its.d_model, its.limit
        width = its.d_embed or its.d_model
        self.embed = its.embed.build(width)
        self.layers = layers_of(its.cell, width, its.d_model, its.num_layers, its.both_ways)
        self.dropout = Dropout(its.dropout)

    def forward(self, inputs: Tensor, layout: Layout, segments: Tensor | None = None) -> Memory:
        """Int[B S] -> Memory with states Float[B S D], zero at padding, and final states Float[B L D]. No direction reads
        padding, on whichever side it stands."""
        if layout.whole:
            states, final = self._run(self.embed(inputs, layout))
            return Memory(states, layout, final)
        real = layout.real.expand(len(inputs), -1)
        x, order = self.embed(inputs, layout), None
        if not bool(real[:, 0].all()):  # padding on the left: bring it to the right, and back
            order = (~real).byte().argsort(dim=1, stable=True)[..., None]
            x = x.gather(1, order.expand_as(x))
        lengths = real.sum(1).clamp(min=1).cpu()
        packed, final = self._run(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))
        states = pad_packed_sequence(packed, batch_first=True, total_length=layout.length)[0]
        if order is not None:
            states = torch.zeros_like(states).scatter(1, order.expand_as(states), states)
        return Memory(states.masked_fill(~real[..., None], 0.0), layout, final)

    def _run(self, x: Any) -> tuple[Any, Hidden]:
        """All layers over a tensor or a packed sequence: states of the last one in the same form, final states of each."""
        final = []
        for number, layer in enumerate(self.layers):
            if number:
                x = x._replace(data=self.dropout(x.data)) if isinstance(x, PackedSequence) else self.dropout(x)
            x, last = through(layer, x)
            final.append([t.transpose(0, 1).flatten(1) for t in (last if isinstance(last, tuple) else (last,))])
        return x, tuple(torch.stack(t, 1) for t in zip(*final, strict=True))
