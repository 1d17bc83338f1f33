"""What a model is (Description), what it does (Model), and the promises its halves keep (Encoder, Decoder, State)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from regard.layers.heads import Answer, Targets
from regard.layers.initial import Uninitialised
from regard.layers.part import from_json, part, to_json
from regard.layers.state import Memory
from regard.layout import Layout

__all__ = ["Answer", "Decoder", "Description", "Encoder", "Model", "State", "Targets", "from_json", "inverse", "to_json"]


class State(Protocol):
    """What a decoder has read. A sentence has one row or more (its beams), next to each other, and one row of memory."""

    @property
    def length(self) -> int:
        """Columns read so far."""
        ...

    def select(self, rows: Tensor) -> None:
        """Make row i a copy of what row rows[i] was; len(rows) may differ, with as many rows for each sentence."""
        ...

    def keep(self, sentences: Tensor) -> None:
        """Drop all sentences but those chosen by index, with their rows and their memory."""
        ...

    def rewind(self, length: int) -> None:
        """Forget all but the first `length` columns; a recurrent state refuses, in words (TypeError)."""
        ...

    @property
    def penalties(self) -> dict[str, Tensor]:
        """What the last reading wants held down in training (see `Answer`)."""
        ...


class Encoder(Protocol):
    """forward(inputs, layout, segments) -> Memory. packs: several documents a row are understood. limit: most tokens.
    embed: its module has place(inputs, pad, side) -> Layout."""

    packs: bool
    limit: int | None
    d_model: int
    embed: Any

    def __call__(self, inputs: Tensor, layout: Layout, segments: Tensor | None = None) -> Memory: ...


class Decoder(Protocol):
    """start(memory, room) -> State; forward(tokens, state, layout) -> hidden Float[R T D]."""

    packs: bool
    limit: int | None
    d_model: int
    embed: Any

    def start(self, memory: Memory | None, room: int = 0) -> Any: ...

    def __call__(self, tokens: Tensor, state: Any, layout: Layout) -> Tensor: ...


@part
class Description:
    """What a model is, as a value: `build` makes the model.

    tied: "no"; "head": the head's matrix is the embedding of the tokens it predicts (the decoder's, or the only one);
    "all": the encoder's embedding too; "embeddings": the encoder's and the decoder's are one, the head's is its own.
    """

    head: Any
    encoder: Any = None
    decoder: Any = None
    tied: Literal["no", "head", "all", "embeddings"] = "no"
    pad: int | None = None

    def build(self) -> Model:
        return Model(self)

    def on_meta(self) -> Model:
        """The model without memory for its weights: names and shapes alone. Nothing is drawn for them either: what draws on
        this device makes torch import its compiler, for two seconds."""
        with torch.device("meta"), Uninitialised():
            return self.build()


class Model(nn.Module):
    """Encoder, decoder and head, whichever the description has."""

    def __init__(self, description: Description) -> None:
        super().__init__()
        if description.encoder is None and description.decoder is None:
            raise ValueError("a model needs an encoder or a decoder")
        self.description, self.pad = description, description.pad
        self.compiled: Any = None  # a twin in compiled code, if someone asked for it (`Loaded.compile`)
        self.encoder: Any = None if description.encoder is None else description.encoder.build_encoder()
        self.decoder: Any = None if description.decoder is None else description.decoder.build_decoder()
        last: Any = self.encoder if self.decoder is None else self.decoder
        self.head = description.head.build(last.d_model)
        if description.tied not in ("no", "head", "all", "embeddings"):
            raise ValueError(f"tied must be 'no', 'head', 'all' or 'embeddings', not {description.tied!r}")
        if description.tied in ("head", "all"):
            self.head.project.weight = last.embed.tokens.weight
        if description.tied in ("all", "embeddings") and self.encoder is not None and self.decoder is not None:
            self.encoder.embed.tokens.weight = last.embed.tokens.weight

    @property
    def packs(self) -> bool:
        """Whether several documents may share a row."""
        return all(half.packs for half in (self.encoder, self.decoder) if half is not None)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def encode(self, inputs: Tensor, layout: Layout | None = None, segments: Tensor | None = None) -> Memory:
        """Int[B S] -> Memory."""
        if self.encoder is None:
            raise TypeError("this model has no encoder")
        return self.encoder(inputs, self._layout(self.encoder, inputs, layout, "both"), segments)

    def start(self, memory: Memory | None, room: int) -> Any:
        """A State to read up to `room` tokens through."""
        if self.decoder is None:
            raise TypeError("this model has no decoder")
        return self.decoder.start(memory, room)

    def step(self, tokens: Tensor, state: Any, layout: Layout | None = None) -> Tensor:
        """Read tokens Int[R T] through a state: logits Float[R V] after the last of them. layout: where the tokens
        stand; None: unpadded, after what the state has read."""
        layout = Layout.unpadded(tokens.shape[1], state.length, tokens.device) if layout is None else layout
        return self.head.step(self.decoder(tokens, state, layout)[:, -1])

    def forward(
        self,
        inputs: Tensor,
        outputs: Tensor | None = None,
        *,
        segments: Tensor | None = None,
        layout: Layout | None = None,
        output_layout: Layout | None = None,
        targets: Targets | None = None,
    ) -> Answer:
        """Answer to inputs Int[B S] and, for an encoder-decoder, outputs Int[B T]: decoder input ids with the start token.

        Without `layout` padding is the run of pad ids at a row's ends; for `outputs` only the right end counts. A model
        with a decoder alone takes its tokens as `inputs`. With `targets` the answer has the loss and no logits.
        """
        if self.encoder is None:
            return self._read(inputs, None, self._layout(self.decoder, inputs, layout, "both"), targets)
        memory = self.encode(inputs, layout, segments)
        if self.decoder is None:
            answer = self.head(memory.states, memory.layout, targets)
        elif outputs is None:
            raise TypeError("this model has a decoder: forward needs `outputs`, the decoder's input ids")
        else:
            answer = self._read(outputs, memory, self._layout(self.decoder, outputs, output_layout, "right"), targets)
        answer.penalties |= memory.penalties
        return answer

    def _read(self, tokens: Tensor, memory: Memory | None, layout: Layout, targets: Targets | None) -> Answer:
        state = self.decoder.start(memory)
        answer: Answer = self.head(self.decoder(tokens, state, layout), layout, targets)
        answer.penalties |= state.penalties
        return answer

    def _layout(self, half: Any, ids: Tensor, layout: Layout | None, side: Literal["both", "right"]) -> Layout:
        placed: Layout = half.embed.place(ids, self.pad, side) if layout is None else layout
        if not self.packs and not placed.whole and int(placed.document.amax()) > 0:
            raise ValueError("this model reads token after token through one state: it cannot keep packed documents apart")
        return placed


class _Parts:
    """The parts of a description made of blocks, by the names that READ has for them. block, other: the first of either
    half; inner: what it does to each token, or one of the experts that do."""

    def __init__(self, its: Description) -> None:
        halves = [half for half in (its.encoder, its.decoder) if half is not None]
        self.whole, self.head, self.first, self.last = its, its.head, halves[0], halves[-1]
        self.block, self.other = self.first.blocks[0], self.last.blocks[0]
        self.inner = getattr(self.block.feedforward, "expert", self.block.feedforward)


READ: dict[str, Callable[[Any], Any]] = {
    "vocab_size": lambda its: its.first.embed.vocab_size,
    "target_vocab_size": lambda its: its.last.embed.vocab_size,
    "max_positions": lambda its: its.first.embed.position.limit,
    "segments": lambda its: its.first.embed.segments,
    "scaled": lambda its: its.first.embed.scaled,
    "d_model": lambda its: its.first.d_model,
    "num_layers": lambda its: len(its.first.blocks),
    "decoder_layers": lambda its: len(its.last.blocks),
    "placement": lambda its: its.block.placement,
    "eps": lambda its: its.block.norm.eps,
    "dropout": lambda its: its.block.dropout,
    "num_heads": lambda its: its.block.attention.num_heads,
    "decoder_heads": lambda its: its.other.attention.num_heads,
    "num_kv_heads": lambda its: its.block.attention.num_kv_heads,
    "head_dim": lambda its: its.block.attention.head_dim,
    "attention_dropout": lambda its: its.block.attention.dropout,
    "d_ff": lambda its: its.inner.d_ff,
    "decoder_d_ff": lambda its: its.other.feedforward.d_ff,
    "activation": lambda its: its.inner.activation,
    "activation_dropout": lambda its: its.inner.dropout,
    "gated": lambda its: its.inner.gated,
    "head": lambda its: "tokens" if getattr(its.head, "pool", None) == "tokens" else its.head.kind,
    "head_bias": lambda its: its.head.bias,
    "classes": lambda its: getattr(its.head, "classes", None),
    "pool": lambda its: its.head.pool,
    "tied": lambda its: its.whole.tied,
    "pad": lambda its: its.whole.pad,
}
"""Arguments of `describe` that mean the same in most architectures, and where each stands in what was described."""


def inverse(
    describe: Callable[..., Description], more: Callable[[Description], dict[str, Any]] = lambda description: {}
) -> Callable[[Description], dict[str, Any] | None]:
    """The inverse of an architecture's `describe`: from a description to the arguments that make it, or None if there are
    none. Arguments are read as READ has it. more: the others, and those that stand elsewhere; it may fail as attributes
    and indices fail where the description is of another architecture."""
    names = inspect.signature(describe).parameters

    def arguments(description: Description) -> dict[str, Any] | None:
        """The arguments from which `describe` makes this description; None if there are none."""
        try:
            its, own = _Parts(description), more(description)
            found = {name: READ[name](its) for name in names if name in READ and name not in own}
            found |= {name: value for name, value in own.items() if name in names}
            return found if describe(**found) == description else None
        except (AttributeError, IndexError, TypeError, ValueError):
            return None

    return arguments
