"""What all that `load` returns has in common: a model, its tokenizers, what its folder knows, and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import torch

from regard.architecture import Model
from regard.checkpoints.folders import save_model
from regard.decoding.generate import BATCH_TOKENS, LONGEST, WINDOW, batches
from regard.decoding.search import BROKEN
from regard.errors import UserError
from regard.layers.int8 import quantize
from regard.layout import Layout
from regard.text.tokenizer import Tokenizer, Tokenizers

T = TypeVar("T")
Framed = tuple[list[int], list[int]]
"""Ids as a model reads them, and the segment of each."""
SHORTENED = "%d of %d texts are longer than the model reads; their ends were left out"


class Loaded:
    """A model with its tokenizers (None for images). meta: what a model folder knows besides.

    what: what it is, in words. use: how it is used, for a message to somebody who tries something else.
    """

    what: ClassVar[str] = "model"
    use: ClassVar[str] = ""

    def __init__(self, model: Model, tokenizers: Tokenizers | None, meta: Mapping[str, Any] | None = None) -> None:
        self.model = model
        self._tokenizers = tokenizers
        self.meta = dict(meta or {})

    @property
    def tokenizers(self) -> Tokenizers:
        """The tokenizers of both sides, one and the same where there is only one; UserError if the model reads no text."""
        if self._tokenizers is None:
            raise UserError("this model has no tokenizer: it does not read text")
        return self._tokenizers

    @property
    def tokenizer(self) -> Tokenizer:
        """The source side's tokenizer."""
        return self.tokenizers.source

    @property
    def limit(self) -> int:
        """Most tokens that the model reads at once: its own limit, but no more than LONGEST (attention's memory grows with
        their square)."""
        its = self.model.decoder if self.model.encoder is None else self.model.encoder
        return LONGEST if its.limit is None else min(its.limit, LONGEST)

    def quantize(self) -> Self:
        """Put weights of eight bits in the place of all linear layers' (`regard.layers.int8`), for good: less memory, faster
        products on a CPU, scores that differ a little. Gives this same object; UserError on a GPU."""
        self.model.compiled = None  # it has weights of its own
        quantize(self.model)
        return self

    def run_in(self, engine: str) -> Self:
        """In the engine of that name, "regard" or "compiled" (see `compile`). UserError: it is another."""
        if engine not in ("regard", "compiled"):
            raise UserError(f"engine {engine}: is not known; known: regard, compiled")
        return self.compile() if engine == "compiled" else self

    def compile(self) -> Self:
        """From now on write in compiled code (`regard.compiled`) where it knows the options of a call: the same answers, one
        at a time several times sooner. For Transformers in float32 on the CPU. UserError: this model is another, or numba is
        not installed."""
        try:
            from regard.compiled.twin import Compiled
        except ImportError:
            raise UserError("compiled code needs numba, which is not installed: pip install 'regard[compiled]'") from None
        self.model.compiled = Compiled.of(self.model)
        return self

    def fits(self, text: str) -> bool:
        """Whether the model reads all of a text."""
        room = self.limit - 8  # what the template puts around it
        return len(text.encode("utf-8", "replace")) <= room or len(self.tokenizer.encode(text)) <= room

    def save(self, folder: str | Path) -> None:
        """Write a model folder that `load` opens again (see `regard.checkpoints.folders.save_model`)."""
        save_model(folder, self.model, self._tokenizers, self.meta)

    def frame(self, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[Framed, bool]:
        """Ids of a text or pair as the model reads them, and whether they were too long and lost their ends: of a pair the
        longer text loses first."""
        room = self.limit - self.tokenizer.template.added(second is not None)
        kept = [list(first), list(second or ())]
        over = sum(map(len, kept)) - max(room, 0)
        if over > 0:
            longer = int(len(kept[1]) > len(kept[0]))
            ahead = min(over, abs(len(kept[0]) - len(kept[1])))
            rest = over - ahead
            cut = [rest // 2, rest // 2]
            cut[longer] += ahead + rest % 2
            kept = [ids[: max(len(ids) - n, 0)] for ids, n in zip(kept, cut)]
        return self.tokenizer.wrap(kept[0], None if second is None else kept[1]), over > 0

    def read(
        self, inputs: Sequence[Framed], take: Callable[[Any, int, int], T], batch_tokens: int = BATCH_TOKENS
    ) -> list[T]:
        """What `take` makes of the model's answer, the row in it, and the row's length, for each input in order. Inputs of
        like length are read together, padded on the right."""
        found: list[Any] = [None] * len(inputs)
        for number, (ids, _) in enumerate(inputs, 1):
            if not ids:
                raise UserError(f"text {number} is empty, and this model's tokenizer puts nothing around a text")
        segmented = max((segment for _, segments in inputs for segment in segments), default=0)
        its = self.model.decoder if self.model.encoder is None else self.model.encoder
        known = getattr(its.embed, "segments", None)
        if known is not None and segmented >= known.num_embeddings:
            raise UserError(f"the tokenizer puts a text into segment {segmented}, the model has only {known.num_embeddings}")
        with torch.inference_mode():
            for group in batches([len(ids) for ids, _ in inputs], batch_tokens):
                lengths = [len(inputs[n][0]) for n in group]
                ids, segments = (
                    torch.tensor([[*inputs[n][side], *[0] * (lengths[0] - len(inputs[n][side]))] for n in group])
                    for side in (0, 1)
                )
                layout = Layout.padded(lengths, device=self.model.device)
                more = segments.to(self.model.device) if segmented else None
                answer = self.model(ids.to(self.model.device), segments=more, layout=layout)
                if any(its is not None and bool(its.isnan().any()) for its in (answer.logits, answer.vectors)):
                    raise UserError(BROKEN)
                for row, number in enumerate(group):
                    found[number] = take(answer, row, lengths[row])
        return found


def in_windows(call: Callable[[list[Any]], Iterable[Any]], inputs: Iterable[Any], window: int = WINDOW) -> Iterator[Any]:
    """`call` on any number of inputs, endless ones too: `window` of them are read, answered and given back."""
    left = iter(inputs)
    while chunk := list(islice(left, window)):
        yield from call(chunk)
