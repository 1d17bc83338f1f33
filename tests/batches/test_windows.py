"""A corpus in memory is one window an epoch."""

from __future__ import annotations

from regard.batches import Limits, TokenisedPairs, Translation
from regard.batches.windows import Whole, Windows, windows_of


class Two:
    """Two windows of a corpus."""

    name, key = "two", "two"

    @property
    def plain(self) -> TokenisedPairs:
        return self.window(0, 0)

    def __len__(self) -> int:
        return 3

    def windows(self, epoch: int) -> int:
        return 2

    def window(self, epoch: int, number: int) -> TokenisedPairs:
        return TokenisedPairs.from_ids([[5] * (number + 1)] * (number + 1), [[6]] * (number + 1))


def test_a_corpus_in_memory_is_fitted_once() -> None:
    data = TokenisedPairs.from_ids([[5], [5] * 9], [[6], [6]])
    whole = windows_of(data, Translation(), Limits(source=5))
    assert isinstance(whole, Whole)
    assert (whole.count(3), whole.examples, whole.report.source) == (1, 1, (2,))
    assert whole.open(0, 0)[0] is whole.open(1, 0)[0]


def test_a_streamed_corpus_is_opened_window_by_window() -> None:
    source = windows_of(Two(), Translation(), Limits())
    assert isinstance(source, Windows)
    assert source.count(0) == 2
    fitted, view = source.open(0, 1)
    assert len(fitted.kept) == 2
    assert view.source.tolist() == [3, 3]
