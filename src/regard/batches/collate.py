"""Lists of token ids to a padded Batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from regard.layers.heads import IGNORED
from regard.layout import Layout


@dataclass(eq=False)
class Batch:
    """What a model reads in one pass and what it should answer.

    inputs: Int[B S], source ids with their eos, or Float[B C H W], pixels. layout: its geometry, which alone says what is
    padding; None: the model reads it off its inputs (images).
    outputs: Int[B T] or None, decoder input: bos and the target ids. output_layout: its geometry.
    targets: Int[B T] or None, target ids and eos, IGNORED at padding. segments: Int[B S] or None.
    examples: number of each row's example in its corpus. source_tokens: real source tokens with eos.
    target_tokens: predicted tokens, with eos and without bos.
    """

    inputs: Tensor
    layout: Layout | None
    outputs: Tensor | None = None
    output_layout: Layout | None = None
    targets: Tensor | None = None
    segments: Tensor | None = None
    examples: list[int] = field(default_factory=list)
    source_tokens: int = 0
    target_tokens: int = 0

    def __len__(self) -> int:
        """Number of rows B."""
        return self.inputs.shape[0]

    @property
    def columns(self) -> int:
        """Tokens and padding of both sides together: B·S + B·T."""
        return self.inputs.numel() + (0 if self.outputs is None else self.outputs.numel())

    def part(self, number: int, parts: int) -> Batch:
        """Every parts-th row from `number` on, padded as before. Where there is none, one row that counts nothing:
        target_tokens are 0."""
        rows = torch.arange(len(self))[number::parts]
        empty = not len(rows)
        rows = torch.zeros(1, dtype=torch.long) if empty else rows
        tensors = {
            name: None if (value := getattr(self, name)) is None else value[rows]
            for name in ("inputs", "outputs", "targets", "segments")
        }
        layouts = {
            name: None if (value := getattr(self, name)) is None else value.take(rows)
            for name in ("layout", "output_layout")
        }
        counts = {"source_tokens": 0, "target_tokens": 0}
        if not empty:
            counts["source_tokens"] = self.source_tokens * len(rows) // len(self)
            counts["target_tokens"] = 0 if self.targets is None else int((tensors["targets"] != IGNORED).sum())
        examples = [] if empty else [self.examples[row] for row in rows.tolist()]
        return replace(self, **tensors, **layouts, **counts, examples=examples)

    def to(self, device: torch.device | str) -> Batch:
        """The same batch with its tensors on another device."""
        moved = {
            name: None if (value := getattr(self, name)) is None else value.to(device)
            for name in ("inputs", "layout", "outputs", "output_layout", "targets", "segments")
        }
        return replace(self, **moved)


def _padded(flat: np.ndarray, lengths: np.ndarray, fill: int, before: int, after: int) -> np.ndarray:
    """Ids laid end to end -> Int64[B T]: `before` columns of `fill`, the ids of each row and `fill` up to the longest,
    `after` columns of `fill`."""
    longest = int(lengths.max(initial=0))
    out = np.full((len(lengths), before + longest + after), fill, dtype=np.int64)
    out[:, before : before + longest][np.arange(longest) < lengths[:, None]] = flat
    return out


def padded(rows: Sequence[np.ndarray], fill: int) -> np.ndarray:
    """Rows of ids -> Int64[B T], filled up to the longest on the right."""
    return _padded(np.concatenate(rows), np.array([len(row) for row in rows]), fill, before=0, after=0)


def collate(
    examples: Sequence[tuple[np.ndarray, np.ndarray]], numbers: Sequence[int], pad: int, bos: int, eos: int
) -> Batch:
    """Pairs of ids without specials -> Batch padded on the right.

    numbers: the examples' numbers in their corpus. pad fills inputs and outputs only; the layouts, made from the
    lengths, say what is padding, so pad may be the same id as eos. Layouts are `whole` where all rows are equally long.
    """
    sources, targets = [one for one, _ in examples], [two for _, two in examples]
    source, target = (np.array([len(ids) for ids in side], dtype=np.int64) for side in (sources, targets))
    source_ids, target_ids, row = np.concatenate(sources), np.concatenate(targets), np.arange(len(examples))
    inputs = _padded(source_ids, source, pad, before=0, after=1)
    inputs[row, source] = eos
    outputs = _padded(target_ids, target, pad, before=1, after=0)
    outputs[:, 0] = bos
    wanted = _padded(target_ids, target, IGNORED, before=0, after=1)
    wanted[row, target] = eos
    return Batch(
        inputs=torch.from_numpy(inputs),
        layout=Layout.padded((source + 1).tolist()),
        outputs=torch.from_numpy(outputs),
        output_layout=Layout.padded((target + 1).tolist()),
        targets=torch.from_numpy(wanted),
        examples=[int(number) for number in numbers],
        source_tokens=int(source.sum()) + len(examples),
        target_tokens=int(target.sum()) + len(examples),
    )
