"""What a model thinks of answers that are there: probabilities of their tokens and where it looks, in one forced pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.decoding.generate import BATCH_TOKENS, batches
from regard.decoding.watch import Watch, hooked, looks
from regard.layout import Layout


@dataclass
class Forced:
    """log_probs: of each token and, if finished, of the end mark. weights: Float[T S], how much each of them looks at each
    source token (the mean over the heads of the last layer); None where a model does not look at its source."""

    log_probs: list[float]
    weights: Tensor | None = None


class _Gather(Watch):
    """All that was looked at in a pass, whether it was taken at once or token by token."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: defaultdict[nn.Module, list[Tensor]] = defaultdict(list)

    def see(self, module: Any, arguments: tuple[Any, ...], output: Tensor) -> None:
        """A hook behind an `attend`."""
        super().see(module, arguments, output)
        self.parts[module].append(self.last[module])

    def whole(self) -> Tensor | None:
        """Float[B T S]: the mean over the models that looked; None if none did."""
        if not self.parts:
            return None
        return torch.stack([torch.cat(parts, 1).float().cpu() for parts in self.parts.values()]).mean(0)


@contextmanager
def _gathering(model: Any) -> Iterator[_Gather]:
    gather = _Gather()
    with hooked(model, gather):
        yield gather


def can_look(model: Any) -> bool:
    """Whether the model has an encoder and a decoder that looks at it."""
    return model.encoder is not None and bool(looks(model))


def forced(
    model: Any,
    sources: Sequence[Sequence[int]],
    answers: Sequence[tuple[Sequence[int], bool]],
    bos: int,
    eos: int,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Forced]:
    """What the model thinks of these answers (ids without marks, and whether an end mark follows) to these sources."""
    found = [Forced([]) for _ in sources]
    outputs = [[bos, *ids][: len(ids) + done] for ids, done in answers]
    targets = [[*ids, eos][: len(ids) + done] for ids, done in answers]
    real = [n for n, (source, target) in enumerate(zip(sources, targets)) if source and target]
    for group in batches([len(sources[n]) + len(targets[n]) for n in real], batch_tokens):
        numbers = [real[n] for n in group]
        rows = _pass(model, [sources[n] for n in numbers], [outputs[n] for n in numbers], [targets[n] for n in numbers])
        for number, row in zip(numbers, rows):
            found[number] = row
    return found


def _pass(model: Any, sources: list[Sequence[int]], outputs: list[list[int]], targets: list[list[int]]) -> list[Forced]:
    device = model.device
    lengths, counts = [len(source) for source in sources], [len(target) for target in targets]
    layouts = {
        "layout": Layout.padded(lengths, device=device),
        "output_layout": Layout.padded(counts, device=device),
    }
    was = model.training
    model.eval()
    try:
        with torch.inference_mode(), _gathering(model) if can_look(model) else nullcontext() as gather:
            logits = model(_filled(sources, device), _filled(outputs, device), **layouts).logits
            log_probs = logits.float().log_softmax(-1).gather(2, _filled(targets, device)[..., None])[..., 0].tolist()
    finally:
        model.train(was)
    weights = None if gather is None else gather.whole()
    return [
        Forced(row[:count], None if weights is None else weights[n, :count, : lengths[n]].clone())
        for n, (row, count) in enumerate(zip(log_probs, counts))
    ]


def _filled(rows: Sequence[Sequence[int]], device: Any) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)


def by_words(weights: Tensor, sources: Sequence[int], answers: Sequence[int], shape: tuple[int, int]) -> Tensor:
    """Float[words, source words] of `shape` from weights [T S]: what the tokens of a word look at, their mean (weights may
    have a row more, of the end mark). sources,
    answers: the word of each token, -1 where it belongs to none."""
    rows, columns = _members(answers, shape[0]), _members(sources, shape[1])
    return rows @ weights[: len(answers)] @ columns.T / rows.sum(1, keepdim=True).clamp(min=1)


def _members(words: Sequence[int], count: int) -> Tensor:
    """Float[count, tokens]: 1 where a token is of a word."""
    return torch.tensor([[float(word == number) for word in words] for number in range(count)]).view(count, len(words))


def links(weights: Tensor, share: float = 0.5) -> list[tuple[int, int]]:
    """Pairs (source word, word) from Float[words, source words]: for each word the source word it looks at most, and those
    that have at least this share of as much."""
    found = []
    for word, row in enumerate(weights.tolist()):
        most = max(row, default=0.0)
        found += [(place, word) for place, value in enumerate(row) if most > 0 and value >= max(share, 1e-9) * most]
    return sorted(found)
