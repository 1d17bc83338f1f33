"""What a model is (Description), what it does (Model), and the promises its halves keep (Encoder, Decoder, State)."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import torch
from torch import Tensor, nn

from regard.layers.heads import Answer, Targets
from regard.layers.part import from_json, part, to_json
from regard.layers.state import Memory
from regard.layout import Layout

__all__ = ["Answer", "Decoder", "Description", "Encoder", "Model", "State", "Targets", "from_json", "to_json"]


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


class Model(nn.Module):
    """Encoder, decoder and head, whichever the description has."""

    def __init__(self, description: Description) -> None:
        super().__init__()
        if description.encoder is None and description.decoder is None:
            raise ValueError("a model needs an encoder or a decoder")
        self.description, self.pad = description, description.pad
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
