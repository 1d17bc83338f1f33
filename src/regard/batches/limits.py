"""Examples longer than a model allows: found before the first step, counted, named by line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from regard.batches.data import Examples
from regard.batches.objectives import Objective
from regard.errors import UserError


@dataclass(frozen=True)
class Limits:
    """Most columns a side may take, counted after subword splitting and with the specials (eos of the source, bos or eos
    of the target), so a model's own limit can be given as it is; None: any number. action: what is done with a longer
    example: "skip" it, "cut" its end off, or "error"."""

    source: int | None = None
    target: int | None = None
    action: Literal["skip", "cut", "error"] = "skip"

    def __post_init__(self) -> None:
        if self.action not in ("skip", "cut", "error"):
            raise UserError(f"the action for too long examples is 'skip', 'cut' or 'error', not {self.action!r}")
        for side, limit in (("source", self.source), ("target", self.target)):
            if limit is not None and limit < 2:
                raise UserError(f"the {side} length limit is {limit}: it must be at least 2, a token and its end")

    def at_most(self, columns: int) -> Limits:
        """These limits, and no side above `columns`."""
        source, target = (columns if side is None else min(side, columns) for side in (self.source, self.target))
        return Limits(source, target, self.action)


@dataclass(frozen=True)
class LengthReport:
    """Which examples were too long. source, target: line numbers, in order; a line may stand in both."""

    name: str
    examples: int
    limits: Limits
    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def count(self) -> int:
        """Examples too long on either side."""
        return len({*self.source, *self.target})

    def lines(self, shown: int = 10) -> list[str]:
        """For the terminal: one line a side with too long examples, naming the first `shown` lines; else nothing."""
        done = {"skip": "skipped", "cut": "cut", "error": "refused"}[self.limits.action]
        told = []
        for side, limit, found in (
            ("source", self.limits.source, self.source),
            ("target", self.limits.target, self.target),
        ):
            if found:
                numbers = ", ".join(map(str, found[:shown])) + (", …" if len(found) > shown else "")
                told.append(
                    f"{self.name}: {len(found)} of {self.examples} examples {done}, {side} longer than {limit} tokens: "
                    f"line{'s' if len(found) > 1 else ''} {numbers}"
                )
        return told

    def json(self) -> dict[str, Any]:
        """The report as a JSON-able dictionary."""
        return {
            "name": self.name,
            "examples": self.examples,
            "action": self.limits.action,
            "too_long": self.count,
            "limit_source": self.limits.source,
            "limit_target": self.limits.target,
            "source_lines": list(self.source),
            "target_lines": list(self.target),
        }


class View:
    """The examples of one epoch as they go into batches. source, target: columns Int[N] after cutting."""

    def __init__(self, fitted: Fitted, epoch: int) -> None:
        self.now, self.plain = fitted.data.at(epoch), fitted.data.plain
        lengths = self.now.source_lengths, self.now.target_lengths
        self.as_plain: np.ndarray = np.zeros(len(self.plain), dtype=bool)
        if self.now is not self.plain:
            # Sampling must not push an example over a limit that it keeps when split plainly.
            self.as_plain = np.any(fitted.over(*lengths), axis=0)
            lengths = tuple(
                np.where(self.as_plain, plain, sampled)
                for plain, sampled in zip((self.plain.source_lengths, self.plain.target_lengths), lengths, strict=True)
            )
        excess = fitted.excess(*lengths)
        self.kept_source, self.kept_target = lengths[0] - excess[0], lengths[1] - excess[1]
        self.source, self.target = fitted.objective.widths(self.kept_source, self.kept_target)

    def pairs(self, numbers: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Ids of the chosen examples, cut to the limits."""
        plainly, now, plain = self.as_plain[numbers], self.now, self.plain
        source = np.where(plainly, plain.source_offsets[numbers], now.source_offsets[numbers])
        target = np.where(plainly, plain.target_offsets[numbers], now.target_offsets[numbers])
        spans = source, source + self.kept_source[numbers], target, target + self.kept_target[numbers]
        corpora = (plain if one else now for one in plainly.tolist())
        # Plain numbers, for slicing by numpy's own is many times slower and this runs for every example of every epoch.
        return [
            (corpus.source[a:b], corpus.target[c:d])
            for corpus, a, b, c, d in zip(corpora, *(span.tolist() for span in spans), strict=True)
        ]


class Fitted:
    """A corpus held to limits. kept: Int[M], numbers of the examples that go into batches; report: what was too long.
    Raises UserError with action="error" and a too long example, or if nothing is left."""

    def __init__(self, data: Examples, objective: Objective, limits: Limits) -> None:
        self.data, self.objective, self.limits = data, objective, limits
        plain = data.plain
        over = self.over(plain.source_lengths, plain.target_lengths)
        named = [tuple(plain.lines[side].tolist()) for side in over]
        self.report = LengthReport(data.name, len(plain), limits, *named)
        if limits.action == "error" and self.report.count:
            raise UserError(f"{self.report.lines()[0]}; shorten them, raise the limit, or choose skip or cut")
        self.kept = np.flatnonzero(~over.any(0)) if limits.action == "skip" else np.arange(len(plain))
        if not len(self.kept):
            raise UserError(f"{data.name}: no example to train on, {len(plain)} read, {self.report.count} too long")

    def excess(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Token counts Int[N] of both sides -> Int[2 N], columns above the limits."""
        widths = self.objective.widths(source, target)
        return np.stack(
            [
                np.zeros_like(width) if limit is None else np.maximum(width - limit, 0)
                for width, limit in zip(widths, (self.limits.source, self.limits.target), strict=True)
            ]
        )

    def over(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Token counts Int[N] of both sides -> Bool[2 N], which are above the limits."""
        return self.excess(source, target) > 0

    def view(self, epoch: int) -> View:
        """The examples as they are in an epoch."""
        return View(self, epoch)
