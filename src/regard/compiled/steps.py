"""Token by token in compiled code: the fast twin of a decoder's state, for those who choose each token themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from regard.compiled.blocks import Places, run
from regard.compiled.choice import Head
from regard.compiled.kernels import Floats
from regard.compiled.products import linear
from regard.compiled.search import Half, caches_of, grown


class Steps:
    """Prompts that are gone on with, a row each, of any lengths."""

    def __init__(self, half: Half, head: Head, prompts: Sequence[Sequence[int]]) -> None:
        self._half, self._head, self._prompts = half, head, prompts
        self._length = np.array([len(one) for one in prompts], np.int32)
        self._past = np.zeros((len(prompts), len(half.tables.added)), np.int32)
        self._used, self._caches = 0, caches_of(half, int(self._length.sum()) + 16 * len(prompts), 0)

    def step(self, tokens: Tensor) -> Tensor:
        """Logits Float[R V] after the tokens Int[R 1] of each row, that were chosen among them; the first time, after the
        prompts, whatever is given."""
        if self._used:
            last = np.arange(len(self._length))
            self._length += 1
            row, position, token = last, self._length - 1, tokens[:, 0].numpy()
        else:
            row = np.arange(len(self._length)).repeat(self._length)
            position = np.concatenate([np.arange(length) for length in self._length])
            token, last = np.concatenate([np.asarray(one) for one in self._prompts]), self._length.cumsum() - 1
        count = len(row)
        slot = np.arange(self._used, self._used + count, dtype=np.int32)
        self._past[row, position] = slot
        self._used += count
        self._caches = grown(self._caches, self._used)
        nothing, seen = np.zeros(count, np.int32), (position + 1).astype(np.int32)
        past = self._past if count == len(self._length) else self._past[row]
        places = Places(token.astype(np.int32), position.astype(np.int32), slot, past, seen, nothing, nothing)
        hidden = np.empty((count, self._half.weights.tokens.shape[1]), np.float32)
        run(count, self._half.weights, self._half.tables, self._half.form, places, self._caches, hidden)
        return torch.from_numpy(self._logits(hidden[last]))

    def _logits(self, hidden: Floats) -> Floats:
        logits = np.empty((len(hidden), self._head.size), np.float32)
        linear(hidden * np.float32(self._head.scale), len(hidden), self._head.weight, self._head.bias, logits)
        return logits

    def keep(self, rows: Tensor) -> None:
        """Go on with the rows chosen by index."""
        self._past, self._length = self._past[rows.numpy()], self._length[rows.numpy()]
