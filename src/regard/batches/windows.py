"""Which examples are shuffled together: a corpus in memory as a whole, a larger one window after window."""

from __future__ import annotations

from typing import Protocol

from regard.batches.data import Examples, TokenisedPairs
from regard.batches.limits import Fitted, LengthReport, Limits, View
from regard.batches.objectives import Objective


class Streamed(Protocol):
    """A corpus of which only a window is in memory. key: identity of its content and order; name: what to call it."""

    name: str
    key: str

    @property
    def plain(self) -> TokenisedPairs:
        """Its first window."""
        ...

    def __len__(self) -> int: ...

    def windows(self, epoch: int) -> int:
        """How many windows an epoch has."""
        ...

    def window(self, epoch: int, number: int) -> TokenisedPairs:
        """The examples of a window; the same whenever asked."""
        ...


class Whole:
    """A corpus in memory: one window an epoch. report: what is too long."""

    def __init__(self, data: Examples, objective: Objective, limits: Limits) -> None:
        self.fitted = Fitted(data, objective, limits)
        self.report: LengthReport = self.fitted.report
        self.examples = len(self.fitted.kept)

    def count(self, epoch: int) -> int:
        """One window."""
        return 1

    def open(self, epoch: int, number: int) -> tuple[Fitted, View]:
        """The corpus as it is in an epoch."""
        return self.fitted, self.fitted.view(epoch)


class Windows:
    """A corpus window by window: what is too long is found only when a window is opened. report, examples: of the first."""

    def __init__(self, data: Streamed, objective: Objective, limits: Limits) -> None:
        self.data, self.objective, self.limits = data, objective, limits
        first = self.open(0, 0)[0]
        self.report: LengthReport = first.report
        self.examples = len(first.kept)

    def count(self, epoch: int) -> int:
        """Windows of an epoch."""
        return self.data.windows(epoch)

    def open(self, epoch: int, number: int) -> tuple[Fitted, View]:
        """A window, held to the limits."""
        fitted = Fitted(self.data.window(epoch, number), self.objective, self.limits)
        return fitted, fitted.view(epoch)


def windows_of(data: Examples | Streamed, objective: Objective, limits: Limits) -> Whole | Windows:
    """Either, as the corpus is."""
    return Windows(data, objective, limits) if hasattr(data, "windows") else Whole(data, objective, limits)  # type: ignore[arg-type]
