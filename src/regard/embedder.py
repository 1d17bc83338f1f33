"""An embedder: texts in, a vector out for each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from regard.decoding.generate import BATCH_TOKENS, WINDOW
from regard.errors import UserError
from regard.loaded import SHORTENED, Loaded, in_windows

log = logging.getLogger("regard.embedder")


class Embedder(Loaded):
    """A model whose head gives a vector of a whole text."""

    what = "an embedder"
    use = "regard embed"

    def embed(
        self, texts: Sequence[str], *, batch_tokens: int = BATCH_TOKENS, tell: Callable[[int], None] | None = None
    ) -> np.ndarray:
        """Float[N D], a row for each text in order. A text longer than the model reads loses its end, which is logged; tell:
        called with the number of each, from 0, instead. UserError for one text in place of a list."""
        if isinstance(texts, str):
            raise UserError('embed takes a list of texts, not one text: write embed(["…"])')
        framed = [self.frame(ids) for ids in self.tokenizer.encode_batch(list(texts))]
        shortened = [number for number, (_, over) in enumerate(framed) if over]
        if tell is not None:
            for number in shortened:
                tell(number)
        elif shortened:
            log.warning(SHORTENED, len(shortened), len(framed))
        rows = self.read(
            [each for each, _ in framed], lambda answer, row, length: answer.vectors[row].float().cpu().numpy(), batch_tokens
        )
        half = self.model.decoder if self.model.encoder is None else self.model.encoder
        return np.stack(rows) if rows else np.zeros((0, half.d_model), dtype=np.float32)

    def stream(self, texts: Iterable[str], *, window: int = WINDOW, **options: Any) -> Iterator[np.ndarray]:
        """`embed` for any number of texts, endless ones too."""
        return in_windows(lambda chunk: self.embed(chunk, **options), texts, window)
