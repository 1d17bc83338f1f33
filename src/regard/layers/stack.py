"""Blocks on top of embeddings: as an encoder, or as a decoder that reads through a state."""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn

from regard.layers.attention import MultiHeadAttention, without_absent
from regard.layers.block import Block
from regard.layers.frame import Frame
from regard.layers.kernels import Dropout
from regard.layers.norms import Norm
from regard.layers.part import part
from regard.layers.quick import Quick
from regard.layers.state import BlockState, Cache, Memory
from regard.layout import Layout


class Embed(Protocol):
    """A description of what makes vectors of a model's inputs; its module has `place(inputs, pad, side)` -> Layout."""

    def build(self, d_model: int) -> nn.Module: ...


class Turning(Protocol):
    """A description of positions inside attention; its module gives Frame.turn and Frame.bias for two layouts."""

    def build(self, num_heads: int, head_dim: int) -> nn.Module: ...


@part
class Stack:
    """Embeddings, blocks, and (for pre-norm blocks) a last norm. It serves as encoder and as decoder.

    position: what acts inside the self-attention of every block (`Rotary`, `Buckets`), made once a pass. last_dropout: on
    what the stack gives.
    """

    d_model: int
    embed: Embed
    blocks: tuple[Block, ...]
    last_norm: Norm | None = None
    position: Turning | None = None
    last_dropout: float = 0.0

    def build_encoder(self) -> BlockEncoder:
        return BlockEncoder(self)

    def build_decoder(self) -> BlockDecoder:
        return BlockDecoder(self)


class _Blocks(nn.Module):
    packs = True

    def __init__(self, its: Stack) -> None:
        super().__init__()
        self.d_model = its.d_model
        self.embed = its.embed.build(its.d_model)
        self.blocks = nn.ModuleList(block.build(its.d_model) for block in its.blocks)
        self.last_norm = None if its.last_norm is None else its.last_norm.build(its.d_model)
        self.masks = frozenset(block.attention.mask for block in its.blocks)
        self.limit = self.embed.limit
        self.dropout = Dropout(its.last_dropout)
        self.position: nn.Module | None = None
        if its.position is not None:
            first: Any = self.blocks[0]
            self.position = its.position.build(first.attention.num_heads, first.attention.head_dim)

    def run(self, x: Tensor, frame: Frame, caches: list[Cache] | None, memory: Memory | None) -> Tensor:
        for number, block in enumerate(self.blocks):
            x = block(x, frame, None if caches is None else caches[number], memory)
        return self.dropout(x if self.last_norm is None else self.last_norm(x))

    def penalties(self, frame: Frame) -> dict[str, Tensor]:
        """What the blocks want held down in training, summed over the real tokens of the pass."""
        if not frame.routed or not self.training:
            return {}
        experts: Any = next(block.feedforward for block in self.blocks if hasattr(block.feedforward, "imbalance"))
        return {"imbalance": experts.imbalance(frame.routed, frame.layout)}


class BlockEncoder(_Blocks):
    """A stack as an encoder."""

    def forward(self, inputs: Tensor, layout: Layout, segments: Tensor | None = None) -> Memory:
        """Int[B S] -> Memory with states Float[B S D]."""
        frame = Frame.of(self.masks, layout, layout, position=self.position)
        states = self.run(self.embed(inputs, layout, segments), frame, None, None)
        return Memory(states, layout, penalties=self.penalties(frame))


class BlockDecoder(_Blocks):
    """A stack as a decoder."""

    def start(self, memory: Memory | None, room: int = 0) -> BlockState:
        """A state that has read nothing. room: how many tokens it will read; 0: they come all at once and nothing need
        be remembered (training)."""
        caches = []
        for block in self.blocks if room else ():
            cross = block.cross
            assert cross is None or isinstance(cross, MultiHeadAttention)
            across = None if cross is None or memory is None else cross.keys_values(memory.states)
            if across is not None and memory is not None and not memory.layout.whole:
                absent = ~memory.layout.real  # cleared once here, not at every step
                across = without_absent(across[0], absent), without_absent(across[1], absent)
            caches.append(Cache(room, across))
        device = next(self.parameters()).device
        state = BlockState(caches, memory, Layout.unpadded(0, device=device))
        state.quick = Quick.of(self) if room else None
        return state

    def forward(self, tokens: Tensor, state: BlockState, layout: Layout) -> Tensor:
        """Read tokens Int[R T] after those the state has read: hidden vectors Float[R T D]."""
        state.read(layout, tokens.shape[0])
        frame = Frame.of(self.masks, layout, state.layout, position=self.position, across=state.look(layout))
        x = self.embed(tokens, layout)
        if state.quick is not None and state.quick.fits(x, frame):
            return state.quick.run(x, frame, state.caches, state.lineage)
        state.settle()
        if state.quick is None or state.quick.watched():
            for cache in state.caches:
                cache.show()
        hidden = self.run(x, frame, state.caches or None, state.memory)
        state.penalties = self.penalties(frame)
        return hidden
