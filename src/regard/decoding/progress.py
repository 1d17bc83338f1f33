"""What is certain of an answer while the search still goes on, for those who read along."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from regard.decoding.options import Hypothesis

Tell = Callable[[int, list[int]], None]
"""tell(sentence, ids): these further tokens are certain. Joined, they are the beginning of the sentence's first answer."""


class Progress:
    """Watches one batch. A token is certain when every hypothesis that may still win has it in the same place."""

    def __init__(self, tell: Tell, count: int, eos: int) -> None:
        self.tell, self.eos, self.told = tell, eos, [0] * count

    def tokens(self, sentences: Tensor, token: Tensor, still: Tensor) -> None:
        """One more token Int[R] of sentences Int[R] that have one hypothesis each; those not `still` running are done."""
        for sentence, number, open_ in zip(sentences.tolist(), token.tolist(), still.tolist(), strict=True):
            if open_ and number != self.eos:
                self.told[sentence] += 1
                self.tell(sentence, [number])

    def beams(self, ids: Tensor, alive: Tensor, sentences: Tensor, pool: Sequence[Sequence[Hypothesis]]) -> None:
        """The running hypotheses Int[A K T] of sentences Int[A], best first, Bool[A K] those that there are, beside the
        finished ones of all sentences."""
        same = (ids == ids[:, :1]) | ~alive[:, :, None]
        common = same.all(1).long().cumprod(1).sum(1).tolist()
        for place, (sentence, length) in enumerate(zip(sentences.tolist(), common, strict=True)):
            if length > self.told[sentence]:
                self._tell(sentence, ids[place, 0, :length].tolist(), pool[sentence])

    def _tell(self, sentence: int, ids: list[int], finished: Sequence[Hypothesis]) -> None:
        length = len(ids)
        for hypothesis in finished:
            pairs = zip(ids[:length], hypothesis.ids)
            length = next((n for n, (a, b) in enumerate(pairs) if a != b), min(length, len(hypothesis.ids)))
        if length > self.told[sentence]:
            self.tell(sentence, ids[self.told[sentence] : length])
            self.told[sentence] = length
