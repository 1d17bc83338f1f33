"""The recurrent decoder: with one fixed context vector (Sutskever et al. 2014, Cho et al. 2014) or with attention (Bahdanau
et al. 2015, Luong et al. 2015)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.layers.attention import without_absent
from regard.layers.embeddings import Tokens
from regard.layers.kernels import Dropout, Linear
from regard.layers.masks import Lowered, lower_cross
from regard.layers.part import part
from regard.layers.recurrent import STEPS, Cell, Hidden, layers_of, run
from regard.layers.scores import Score
from regard.layers.state import BlockState, Cache, Memory
from regard.layout import Layout


@part
class RecurrentDecoder:
    """Recurrent layers that read a sentence so far and give a hidden vector for what comes next.

    attention: the score, None for no attention at all. query: "previous" asks with the state before the token is read,
    and what attention gives goes into the cell beside the token (Bahdanau); "current" asks with the state after it
    (Luong). input_feeding: with "current", the vector answered last goes into the cell too (Luong, section 3.3).
    context, without attention: the encoder's final state is the first state only ("start", Sutskever), or is fed into the
    cell at every step as well ("every_step", Cho). bridge: the first state is tanh(W s + b) of the final one (Bahdanau),
    not that state itself. d_embed: width of embeddings and of the hidden vectors, so that the head can be tied; None for
    d_model. dropout: between layers and on the hidden vectors.

    The hidden vector is tanh(W [state; context]) as Luong's; where the context goes into the cell it is
    tanh(W [state; context; token]), in place of Bahdanau's maxout; without a context it is the state.
    """

    d_model: int
    embed: Tokens
    cell: Cell = "gru"
    num_layers: int = 1
    attention: Score | None = None
    query: Literal["previous", "current"] = "current"
    input_feeding: bool = False
    context: Literal["start", "every_step"] = "start"
    bridge: bool = True
    d_embed: int | None = None
    dropout: float = 0.0

    def build_decoder(self) -> RecurrentReader:
        return RecurrentReader(self)


def _check(its: RecurrentDecoder) -> None:
    if its.query not in ("previous", "current"):
        raise ValueError(f"query must be 'previous' or 'current', not {its.query!r}")
    if its.context not in ("start", "every_step"):
        raise ValueError(f"context must be 'start' or 'every_step', not {its.context!r}")
    if its.attention is not None and its.context != "start":
        raise ValueError("attention takes the place of the fixed context vector: context must be 'start' with it")
    if its.input_feeding and (its.attention is None or its.query == "previous"):
        raise ValueError("input_feeding needs attention that asks with the current state (query='current')")


class RecurrentState(BlockState):
    """What a recurrent decoder remembers: each layer's state, the vector fed back, the keys and values of the memory."""

    def __init__(
        self, hidden: list[Hidden], caches: list[Cache], memory: Memory | None, device: torch.device, room: int
    ) -> None:
        super().__init__(caches, memory, Layout.unpadded(0, device=device))
        self.hidden, self.remembers = hidden, room > 0
        self.fed: Tensor | None = None

    def select(self, rows: Tensor) -> None:
        """Make row i a copy of what row rows[i] was, in every layer."""
        super().select(rows)
        self.hidden = [tuple(t[rows] for t in layer) for layer in self.hidden]
        self.fed = None if self.fed is None else self.fed[rows]

    def rewind(self, length: int) -> None:
        """TypeError: what was read is mixed into one vector."""
        raise TypeError("a recurrent state cannot forget what it has read: start a new one")


class Look:
    """Attention over a memory for the rows of a pass; the beams of a sentence become more queries of the same keys."""

    def __init__(self, attend: nn.Module, keys_values: tuple[Tensor, Tensor], mask: Lowered, rows: int) -> None:
        self.attend, self.mask = attend, mask
        self.keys, self.values = keys_values
        self.beams = rows // self.keys.shape[0]

    def __call__(self, q: Tensor) -> Tensor:
        """Queries Float[R T W] -> contexts Float[R T D]."""
        tokens = q.shape[1]
        if self.beams > 1:
            q = q.unflatten(0, (-1, self.beams)).flatten(1, 2)
        y = self.attend(q[:, None], self.keys, self.values, self.mask)[:, 0]
        return y.unflatten(1, (self.beams, tokens)).flatten(0, 1) if self.beams > 1 else y


def summary(memory: Memory, count: int) -> Hidden:
    """The state of each of `count` layers that a memory ends in: Float[B L D], of an LSTM the cells too. A memory without
    final states (of a stack of blocks) gives the mean of its states to every layer."""
    if memory.final is None:
        real = memory.layout.real[..., None].expand(memory.states.shape[0], -1, 1)
        mean = memory.states.masked_fill(~real, 0.0).sum(1) / real.sum(1).clamp(min=1)
        return (mean[:, None].expand(-1, count, -1),)
    if memory.final[0].shape[1] != count:
        layers = memory.final[0].shape[1]
        raise ValueError(f"an encoder of {layers} layers cannot hand its states to a decoder of {count}: use as many")
    return memory.final


class RecurrentReader(nn.Module):
    """The module of RecurrentDecoder. Where nothing feeds back into the cell, all tokens at hand go through each layer at
    once; else, and past padding that the state must not read, one after another."""

    packs = False
    limit = None

    def __init__(self, its: RecurrentDecoder) -> None:
        super().__init__()
        _check(its)
        inner, outer = its.d_model, its.d_embed or its.d_model
        self.inner, self.d_model, self.step = inner, outer, STEPS.get(its.cell, STEPS["rnn"])
        self.previous = its.attention is not None and its.query == "previous"
        self.every_step, self.feeding = its.context == "every_step", its.input_feeding
        self.embed = its.embed.build(outer)
        extra = inner if self.previous or self.every_step else outer if self.feeding else 0
        self.layers: Any = layers_of(its.cell, outer + extra, inner, its.num_layers)
        self.parts = 2 if its.cell == "lstm" else 1
        self.bridge = nn.ModuleList(Linear(inner, inner) for _ in range(its.num_layers * self.parts) if its.bridge)
        self.reads_token = its.attention is not None and its.attention.reads_token
        self.attend: Any = None
        if its.attention is not None:
            self.attend = its.attention.build(inner + outer * self.reads_token, 0.0)
        self.deep = self.previous or self.every_step
        self.readout: nn.Module | None = None
        if self.deep or self.attend is not None:
            self.readout = Linear(2 * inner + outer * self.deep, outer)
        elif inner != outer:
            self.readout = Linear(inner, outer)
        self.dropout = Dropout(its.dropout)

    def start(self, memory: Memory | None, room: int = 0) -> RecurrentState:
        """A state that has read nothing. room: how many tokens it will read; 0: they come all at once and nothing need be
        remembered (training)."""
        device = self.embed.tokens.weight.device
        if memory is None:
            if self.attend is not None or self.every_step:
                raise TypeError("this decoder looks at a memory: it cannot start without one")
            return RecurrentState([], [], None, device, room)
        final = summary(memory, len(self.layers))
        final = (*final, *(torch.zeros_like(final[0]),) * self.parts)[: self.parts]
        hidden = []
        for number in range(len(self.layers)):
            layer = tuple(t[:, number] for t in final)
            if self.bridge:
                layer = tuple(self.bridge[number * self.parts + i](t).tanh() for i, t in enumerate(layer))
            hidden.append(layer)
        caches = []
        if self.attend is not None:  # what is padding is cleared once here, not at every step
            absent = lower_cross(memory.layout, memory.layout).absent
            keys, values = self.attend.keys(memory), memory.states[:, None]
            caches.append(Cache(0, (without_absent(keys, absent), without_absent(values, absent))))
        return RecurrentState(hidden, caches, memory, device, room)

    def forward(self, tokens: Tensor, state: RecurrentState, layout: Layout) -> Tensor:
        """Read tokens Int[R T] after those the state has read: hidden vectors Float[R T D]."""
        rows = tokens.shape[0]
        state.read(layout, rows)
        x = self.embed(tokens, layout)
        if not state.hidden:
            state.hidden = [(x.new_zeros(rows, self.inner),) * self.parts for _ in self.layers]
        memory, look = state.memory, None
        if self.attend is not None and memory is not None:
            mask = Lowered(lower_cross(layout, memory.layout).allowed)
            look = Look(self.attend, state.caches[0].across, mask, rows)
        if self.every_step and memory is not None:
            fixed = summary(memory, len(self.layers))[0][:, -1]
            fixed = fixed.repeat_interleave(rows // len(fixed), 0)[:, None].expand(-1, x.shape[1], -1)
            x = torch.cat([x, fixed], -1)
        # Padding on the right needs no care while nothing is remembered: what stands before it never sees it.
        careful = not layout.whole and (state.remembers or not bool(layout.real[:, 0].all()))
        real = layout.real.expand(rows, -1)[..., None].unbind(1) if careful else None
        if careful or self.previous or self.feeding:
            hidden = self._one_by_one(x, state, look, real)
        else:
            hidden = self._at_once(x, state, look)
        return self.dropout(hidden)

    def _at_once(self, x: Tensor, state: RecurrentState, look: Look | None) -> Tensor:
        h, after = x, []
        for number, (layer, hidden) in enumerate(zip(self.layers, state.hidden, strict=True)):
            h, last = run(layer, self.dropout(h) if number else h, hidden)
            after.append(last)
        state.hidden = after
        return self._answer(h, None if look is None else look(self._query(x, h)), x)

    def _one_by_one(self, x: Tensor, state: RecurrentState, look: Look | None, real: tuple[Tensor, ...] | None) -> Tensor:
        width, matrix = x.shape[2], self.layers[0].weight_ih_l0
        back = matrix[:, width:]
        if self.feeding and state.fed is None:
            state.fed = x.new_zeros(x.shape[0], self.d_model)
        states, contexts, answers = [], [], []
        given = F.linear(x, matrix[:, :width], self.layers[0].bias_ih_l0).unbind(1)
        for t, token in enumerate(x.unbind(1)):
            fed, context = state.fed, None
            if self.previous:
                fed = context = self._ask(look, token, state.hidden[-1][0])
            hidden = self._step(given[t] if fed is None else given[t] + F.linear(fed, back), state.hidden)
            top = hidden[-1][0]
            if not self.previous:
                context = self._ask(look, token, top)
            if self.feeding:
                fed = self._answer(top, context, token)
                answers.append(fed)
                state.fed = fed if real is None or state.fed is None else torch.where(real[t], fed, state.fed)
            states.append(top)
            contexts.append(context)
            state.hidden = hidden if real is None else _where(real[t], hidden, state.hidden)
        if self.feeding:
            return torch.stack(answers, 1)
        return self._answer(torch.stack(states, 1), None if look is None else torch.stack(contexts, 1), x)

    def _step(self, given: Tensor, hidden: list[Hidden]) -> list[Hidden]:
        after = [self.step(given, hidden[0], self.layers[0])]
        for layer, before in zip(self.layers[1:], hidden[1:], strict=True):
            given = F.linear(self.dropout(after[-1][0]), layer.weight_ih_l0, layer.bias_ih_l0)
            after.append(self.step(given, before, layer))
        return after

    def _query(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.cat([x, h], -1) if self.reads_token else h

    def _ask(self, look: Look | None, token: Tensor, h: Tensor) -> Tensor | None:
        return None if look is None else look(self._query(token, h)[:, None])[:, 0]

    def _answer(self, h: Tensor, context: Tensor | None, x: Tensor) -> Tensor:
        """What the layers' last state, the context and the input (with a fixed context in it) say."""
        if self.readout is None:
            return h
        seen = [h] if context is None else [h, context]
        y = self.readout(torch.cat([*seen, x], -1) if self.deep else torch.cat(seen, -1))
        return y if self.attend is None and not self.deep else y.tanh()


def _where(real: Tensor, after: list[Hidden], before: list[Hidden]) -> list[Hidden]:
    """The states after a step in rows that read a token, those before it in rows that had padding there."""
    return [
        tuple(torch.where(real, a, b) for a, b in zip(new, old, strict=True)) for new, old in zip(after, before, strict=True)
    ]
