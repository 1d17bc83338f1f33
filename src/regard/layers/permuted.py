"""Attention by relative positions and segments, and two streams of it: what stands at a place, and what is asked about it.

A pass has content columns, one a token, and after them query columns, one for each place that is predicted. All look at the
content columns' keys; a query column knows its place and not its token, so that tokens can be predicted in any order (Yang
et al. 2019, XLNet). Both go through the same blocks side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.layers.attention import ScaledDot
from regard.layers.block import Block
from regard.layers.blocks import Spots, exactly
from regard.layers.embeddings import Tokens
from regard.layers.frame import Frame
from regard.layers.kernels import Dropout, Linear
from regard.layers.masks import Everything, Lowered, Mask, Ordered
from regard.layers.part import part
from regard.layers.state import BlockState, Cache, Memory
from regard.layout import Layout


@dataclass(frozen=True, eq=False, kw_only=True)
class StreamFrame(Frame):
    """content: content columns, the first of all. table: Float[P D], what stands for each distance from query to key.
    distance: Int[B|1 Q K], its row for each of them. apart: Bool[B Q K], in different segments, or None if in the same."""

    content: int
    table: Tensor
    distance: Tensor
    apart: Tensor | None = None


def distances(span: int, d_model: int, device: torch.device) -> Tensor:
    """Float[2·span+1 d_model] for distances -span to span: their sines, then their cosines, at the rates of Vaswani et al.
    2017. Always in single precision."""
    rates = 1 / torch.pow(10000, torch.arange(0, d_model, 2, device=device).float() / d_model)
    angle = torch.arange(-span, span + 1, device=device).float()[:, None] * rates
    return torch.cat([angle.sin(), angle.cos()], -1)[:, :d_model]


@part
class RelativeAttention:
    """Scores that are a sum of three, each of a query with a learned shift: with the key's content, with the distance to it
    (Dai et al. 2019, Transformer-XL), and with whether it is in the same segment (Yang et al. 2019, section 2.5).

    dropout: on the weights. No product has a bias.
    """

    num_heads: int
    mask: Mask = Everything()
    dropout: float = 0.0

    def build(self, d_model: int) -> RelativeSelfAttention:
        return RelativeSelfAttention(self, d_model)


class RelativeSelfAttention(nn.Module):
    """The module of RelativeAttention."""

    def __init__(self, its: RelativeAttention, d_model: int) -> None:
        super().__init__()
        if d_model % its.num_heads:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {its.num_heads}")
        self.mask, self.num_heads, self.head_dim = its.mask, its.num_heads, d_model // its.num_heads
        self.q, self.kv = Linear(d_model, d_model, False), Linear(d_model, 2 * d_model, False)
        self.place, self.output = Linear(d_model, d_model, False), Linear(d_model, d_model, False)
        self.content_shift, self.place_shift, self.segment_shift = (self._drawn() for _ in range(3))
        self.segments = self._drawn(2)
        self.attend = ScaledDot().build(self.head_dim, its.dropout)

    def _drawn(self, *count: int) -> nn.Parameter:
        weight = nn.Parameter(torch.empty(*count, self.num_heads, self.head_dim))
        nn.init.normal_(weight, 0.0, 0.02)
        return weight

    def heads(self, x: Tensor) -> Tensor:
        """[B T H·d] -> [B H T d]."""
        return x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x: Tensor, frame: Any, cache: Cache | None = None, memory: Memory | None = None) -> Tensor:
        """x: Float[B Q D], content columns and then query columns, in a StreamFrame -> Float[B Q D]."""
        q = self.heads(self.q(x))
        k, v = (self.heads(part) for part in self.kv(x[:, : frame.content]).chunk(2, -1))
        if cache is not None:
            k, v = cache.extend(k, v)
        place = self.heads(self.place(frame.table.to(x.dtype))[None])
        far = (q + self.place_shift[:, None]) @ place.transpose(-1, -2)
        bias = far.gather(-1, frame.distance[:, None].expand(*q.shape[:3], -1))
        side = torch.einsum("bhqd,shd->sbhq", q + self.segment_shift[:, None], self.segments)[..., None]
        bias = bias + (side[0] if frame.apart is None else torch.where(frame.apart[:, None], side[1], side[0]))
        lowered = frame.masks[self.mask]
        y = self.attend(q + self.content_shift[:, None], k, v, lowered, bias * self.attend.scale)
        return self.output(y.transpose(1, 2).flatten(2))


@part
class Streams:
    """A stack of blocks whose attention is RelativeAttention. It serves as encoder, which has the content stream alone, and
    as decoder (see `StreamDecoder`).

    farthest: distances beyond it count as this one; None for no end. last_dropout: on what the stack gives.
    """

    d_model: int
    embed: Tokens
    blocks: tuple[Block, ...]
    farthest: int | None = None
    last_dropout: float = 0.0

    def build_encoder(self) -> StreamEncoder:
        return StreamEncoder(self)

    def build_decoder(self) -> StreamDecoder:
        return StreamDecoder(self)


class _Streams(nn.Module):
    packs = True
    limit = None
    last_norm = None

    def __init__(self, its: Streams) -> None:
        super().__init__()
        self.d_model, self.farthest = its.d_model, its.farthest
        self.embed = its.embed.build(its.d_model)
        self.blocks = nn.ModuleList(block.build(its.d_model) for block in its.blocks)
        self.masks = frozenset(block.attention.mask for block in its.blocks)
        self.dropout = Dropout(its.last_dropout)

    def frame(self, asked: Layout, keys: Layout, content: int, apart: Tensor | None = None) -> StreamFrame:
        """The frame of content and query columns `asked` over `keys`, the last `content` of which are these tokens."""
        span = max(asked.longest, keys.longest)
        span = span if self.farthest is None else min(span, self.farthest)
        table = self.embed.dropout(distances(span, self.d_model, keys.position.device))
        far = asked.position[:, :, None] - keys.position[:, None, :]
        masks = {}
        for mask in self.masks:
            free = asked.whole and keys.whole and mask == Everything() and asked.mark is None and keys.mark is None
            allowed = None if free else exactly(mask & Ordered(), asked, keys)[:, None]
            masks[mask] = Lowered(allowed, absent=None if keys.whole else ~keys.real)
        return StreamFrame(asked, masks, content=content, table=table, distance=far.clamp(-span, span) + span, apart=apart)

    def run(self, x: Tensor, frame: StreamFrame, caches: list[Cache] | None = None) -> Tensor:
        for number, block in enumerate(self.blocks):
            x = block(x, frame, None if caches is None else caches[number])
        return x


class StreamEncoder(_Streams):
    """The content stream alone: every token sees all of its document."""

    def forward(self, inputs: Tensor, layout: Layout, segments: Tensor | None = None) -> Memory:
        """Int[B S] -> Memory with states Float[B S D]. segments: Int[B S], any numbers; only whether they are equal
        counts."""
        apart = None if segments is None else segments[:, :, None] != segments[:, None, :]
        plain = replace(layout, mark=None)
        x = self.run(self.embed(inputs, layout), self.frame(plain, plain, layout.length, apart))
        return Memory(self.dropout(x), layout)


class StreamState(BlockState):
    """What a StreamDecoder has read: marked tokens, whose keys and values its caches keep (`before`: their layout), and
    after them tokens without marks, which are read anew at every step (`ids`, `since`: their layout)."""

    def __init__(self, caches: list[Cache], layout: Layout) -> None:
        super().__init__(caches, None, layout)
        self.before, self.since = layout, layout
        self.ids: Tensor | None = None

    def select(self, rows: Tensor) -> None:
        """Make row i a copy of what row rows[i] was."""
        super().select(rows)
        self.before, self.since = self.before.take(rows), self.since.take(rows)
        self.ids = None if self.ids is None else self.ids[rows]

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` columns."""
        known = min(length, self.before.length)
        super().rewind(length)
        self.before, self.since = self.before.first(known), self.since.first(length - known)
        self.ids = None if self.ids is None else self.ids[:, : length - known]
        for cache in self.caches:
            cache.length = known


class StreamDecoder(_Streams):
    """Predicts tokens in any order, or from left to right.

    In a layout with marks these are the order of prediction. Mark 0: known from the start, seen by all, not predicted.
    Marks 1, 2, …: predicted in this order; what is predicted sees all tokens of smaller marks and not its own, a known
    token's own column sees tokens up to its own mark. Tokens of one mark are predicted at once. The hidden vector of a
    predicted token is its query column's, so that targets stand where their tokens stand (not one place before); that of
    mark 0 is its content column's. A state that has room keeps what was read so: later tokens see it (Transformer-XL's
    memory), all of it in its document, whatever its marks.

    In a layout without marks the hidden vector of a token predicts the next one: all tokens up to it are known and see one
    another, and a query stands one place after it. They change what they are with every token that comes, so each step
    reads all of them again: there is no cache.
    """

    def __init__(self, its: Streams) -> None:
        super().__init__(its)
        self.asked = nn.Parameter(torch.empty(1, 1, its.d_model))
        nn.init.normal_(self.asked, 0.0, 0.02)

    def start(self, memory: Memory | None, room: int = 0) -> StreamState:
        """A state that has read nothing. room: how many tokens it will read; 0: they come all at once."""
        caches = [Cache(room) for _ in self.blocks] if room else []
        return StreamState(caches, Layout.unpadded(0, device=self.asked.device))

    def forward(self, tokens: Tensor, state: StreamState, layout: Layout) -> Tensor:
        """Read tokens Int[R T] after those the state has read: hidden vectors Float[R T D]; of tokens without marks, through
        a state that has room, that of the last alone, Float[R 1 D]. ValueError: marked tokens after unmarked ones."""
        plain = replace(layout, mark=None)
        if layout.mark is not None:
            if state.ids is not None and state.ids.shape[1]:
                raise ValueError("tokens with an order of prediction cannot follow tokens without one")
            state.read(plain, tokens.shape[0])
            hidden = self.ordered(tokens, layout, state)
            state.before = state.before.then(plain)
            return hidden
        state.read(plain, tokens.shape[0])
        state.since = plain if state.ids is None else state.since.then(plain)
        state.ids = tokens if state.ids is None else torch.cat([state.ids, tokens], 1)
        end = state.ids.shape[1]
        first = end if state.caches else end - tokens.shape[1] + 1
        return torch.cat([self.following(state, length) for length in range(first, end + 1)], 1)

    def ordered(self, tokens: Tensor, layout: Layout, state: StreamState) -> Tensor:
        """Tokens with marks."""
        assert layout.mark is not None
        spots = Spots.of((layout.mark > 0) & layout.real)
        keys = state.before.then(layout)
        x = self.embed(tokens, layout)
        if spots is None:
            return self.dropout(self.run(x, self.frame(layout, keys, layout.length), state.caches or None))
        places = spots.layout(layout)
        assert places.mark is not None
        queries = replace(places, mark=places.mark - 1)  # it sees what has a smaller mark than its token
        frame = self.frame(layout.then(queries), keys, layout.length)
        asked = self.embed.dropout(self.asked.expand(x.shape[0], queries.length, -1))
        x = self.run(torch.cat([x, asked], 1), frame, state.caches or None)
        return self.dropout(spots.put(x[:, : layout.length], x[:, layout.length :], 1))

    def following(self, state: StreamState, length: int) -> Tensor:
        """Float[R 1 D]: what follows the first `length` tokens without marks."""
        assert state.ids is not None
        layout, known = state.since.first(length), state.before.length
        keys = state.before.then(layout)
        x = self.embed(state.ids[:, :length], layout)
        asked = self.embed.dropout(self.asked.expand(x.shape[0], 1, -1))
        frame = self.frame(layout.then(layout.next()), keys, length)
        x = self.run(torch.cat([x, asked], 1), frame, state.caches if known else None)
        for cache in state.caches:
            cache.length = known  # what was read now is read again with the next token
        return self.dropout(x[:, -1:])
