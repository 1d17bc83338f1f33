"""A whole text from a damaged one: T5's spans behind sentinels, BART's noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from regard.batches.collate import Batch, padded
from regard.layers.heads import IGNORED
from regard.layout import Layout

Example = tuple[np.ndarray, np.ndarray]


def _parts(total: int, count: int, noise: np.random.Generator) -> np.ndarray:
    """`total` divided into `count` parts of at least one, all divisions equally likely."""
    cuts = np.sort(noise.permutation(total - 1)[: count - 1]) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))


def _batch(sources: list[np.ndarray], targets: list[np.ndarray], numbers: Sequence[int], pad: int, start: int) -> Batch:
    """Source and target rows, complete with their marks -> Batch; the decoder reads `start` and all but the last."""
    outputs = [np.concatenate([[start], row[:-1]]) for row in targets]
    return Batch(
        inputs=torch.from_numpy(padded(sources, pad)),
        layout=Layout.padded([len(row) for row in sources]),
        outputs=torch.from_numpy(padded(outputs, pad)),
        output_layout=Layout.padded([len(row) for row in outputs]),
        targets=torch.from_numpy(padded(targets, IGNORED)),
        examples=[int(number) for number in numbers],
        source_tokens=sum(map(len, sources)),
        target_tokens=sum(map(len, targets)),
    )


@dataclass(frozen=True)
class Spans:
    """Spans of a text, each behind a sentinel of its own, from the text with a sentinel for each (Raffel et al. 2020):
    about `share` of the tokens in spans of `mean` tokens on average, drawn as T5's own code draws them (the text begins
    outside a span and ends in one). Source and target end with `eos`; the decoder starts from `start`.

    sentinels: their ids in order; a text with more spans is left whole from there on.
    """

    sentinels: tuple[int, ...]
    share: float = 0.15
    mean: float = 3.0
    pad: int = 0
    start: int = 2
    eos: int = 3

    def counts(self, length: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lengths Int[N] -> how many tokens are hidden, and in how many spans."""
        hidden = np.clip(np.rint(length * self.share), 1, np.maximum(length - 1, 1)).astype(np.int64)
        spans = np.clip(np.rint(hidden / self.mean), 1, np.maximum(np.minimum(hidden, length - hidden), 1))
        return hidden, np.minimum(spans.astype(np.int64), len(self.sentinels))

    def widths(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Columns at most: the source keeps all its tokens and the end mark if every span has one token."""
        hidden, spans = self.counts(source)
        return source + 1, hidden + spans + 1

    def __call__(self, examples: Sequence[Example], numbers: Sequence[int], noise: np.random.Generator) -> Batch:
        """Draws the spans."""
        made = [self.corrupted(ids, noise) for ids, _ in examples]
        return _batch([one for one, _ in made], [two for _, two in made], numbers, self.pad, self.start)

    def corrupted(self, ids: np.ndarray, noise: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Ids Int[T] -> source and target, each with its end mark."""
        hidden, spans = (int(count[0]) for count in self.counts(np.array([len(ids)])))
        if len(ids) < 2:  # nothing would be left to predict it from but its place
            return np.array([self.sentinels[0], self.eos]), np.array([self.sentinels[0], *ids, self.eos])
        kept = _parts(len(ids) - hidden, spans, noise)
        gone = _parts(hidden, spans, noise)
        source: list[np.ndarray] = []
        target: list[np.ndarray] = []
        at = 0
        for sentinel, keep, hide in zip(self.sentinels, kept.tolist(), gone.tolist()):
            source += [ids[at : at + keep], np.array([sentinel])]
            target += [np.array([sentinel]), ids[at + keep : at + keep + hide]]
            at += keep + hide
        end = np.array([self.eos])
        return np.concatenate([*source, end]).astype(np.int64), np.concatenate([*target, end]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Denoising:
    """A text from its ruins (Lewis et al. 2020, BART). In this order: `shuffle` puts its sentences in another order;
    `rotate` is the chance that it begins in its middle; `delete` the share of tokens that are left out; `share` the share
    of tokens in spans that become one `mask` each, their lengths Poisson with `mean`, none among them (a mask that stands
    for nothing). `before` and `after` are the marks around source and target; the decoder starts from `start`.

    ends: Bool[V], tokens that end a sentence. Deviation: spans never touch, so that two masks never stand for one.
    """

    mask: int
    ends: np.ndarray
    share: float = 0.3
    mean: float = 3.0
    shuffle: bool = True
    delete: float = 0.0
    rotate: float = 0.0
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = (3,)
    start: int = 2
    pad: int = 0

    def widths(self, source: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The text and its marks, on both sides."""
        both = source + len(self.before) + len(self.after)
        return both, both

    def __call__(self, examples: Sequence[Example], numbers: Sequence[int], noise: np.random.Generator) -> Batch:
        """Draws the damage."""
        sources = [self._marked(self.ruined(ids, noise)) for ids, _ in examples]
        return _batch(sources, [self._marked(ids) for ids, _ in examples], numbers, self.pad, self.start)

    def _marked(self, ids: np.ndarray) -> np.ndarray:
        return np.concatenate([self.before, ids, self.after]).astype(np.int64)

    def ruined(self, ids: np.ndarray, noise: np.random.Generator) -> np.ndarray:
        """Ids Int[T] -> what is left of them, without marks; never longer."""
        if self.shuffle:
            cuts = np.flatnonzero(self.ends[ids[:-1]]) + 1
            sentences = np.split(ids, cuts)
            ids = np.concatenate([sentences[i] for i in noise.permutation(len(sentences))])
        if self.rotate and noise.random() < self.rotate:
            ids = np.roll(ids, -int(noise.integers(0, len(ids))))
        if self.delete:
            kept = noise.permutation(len(ids))[round(self.delete * len(ids)) :]
            ids = ids[np.sort(kept)]
        return self._infilled(ids, noise) if self.share and len(ids) else ids

    def _infilled(self, ids: np.ndarray, noise: np.random.Generator) -> np.ndarray:
        wanted = round(self.share * len(ids))
        lengths: list[int] = []
        left, zeros = wanted, 0
        while left > 0:
            length = min(int(noise.poisson(self.mean)), left)
            if length:
                lengths.append(length)
            else:
                zeros += 1
            left -= length
        rest = len(ids) - wanted
        lengths = lengths[: rest + 1]  # spans that never touch need a token between each two
        gaps = self._gaps(len(ids) - sum(lengths), len(lengths), noise)
        out: list[np.ndarray] = []
        at = 0
        for gap, length in zip(gaps, [*lengths, 0]):
            out.append(ids[at : at + gap])
            at += gap + length
            if length:
                out.append(np.array([self.mask]))
        ids, longest = np.concatenate(out), len(ids)
        for _ in range(min(zeros, longest - len(ids))):
            ids = np.insert(ids, int(noise.integers(0, len(ids) + 1)), self.mask)
        return ids

    def _gaps(self, kept: int, spans: int, noise: np.random.Generator) -> list[int]:
        """Tokens before the first span, between each two (at least one), and after the last, all divisions alike."""
        inner = max(spans - 1, 0)
        parts = _parts(kept - inner + spans + 1, spans + 1, noise) - 1
        parts[1:-1] += 1
        return parts.tolist()
