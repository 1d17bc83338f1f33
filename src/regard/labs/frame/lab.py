"""A lab as a value, and how it is run."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from regard.labs.frame.values import Design, Measured, Quote, Result, Text, Verdict, verdict_of

Size = Literal["fast", "usual", "full"]
T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """How a lab is run. broken: with its mechanism sabotaged. size: "fast" for a check in seconds, "full" for as much as it
    has. seed: of everything that is drawn."""

    broken: bool = False
    size: Size = "usual"
    seed: int = 0

    def pick(self, fast: T, usual: T, full: T) -> T:
        """The one of three values that goes with the size."""
        return {"fast": fast, "usual": usual, "full": full}[self.size]


@dataclass(frozen=True)
class Lab:
    """One claim, or a few that are measured together.

    number, name: as in L1 `permute`. quotes: the claim as the notes have it. expected: the verdict that the documentation
    tells. sabotage: what `--break` does to the mechanism. measure: does the work.
    """

    number: int
    name: str
    title: Text
    quotes: tuple[Quote, ...]
    design: Design
    expected: Verdict
    sabotage: Text
    measure: Callable[[Setting], Measured]


def run(lab: Lab, setting: Setting | None = None) -> Result:
    """Measure and judge. The caller's random state is left as it was."""
    import torch

    setting = setting or Setting()
    began = time.perf_counter()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(setting.seed)
        found = lab.measure(setting)
    seconds = round(time.perf_counter() - began, 3)
    # what the lab says of limits is of the mechanism as it is
    told: dict[str, Any] = dict(found) | ({"limits": []} if setting.broken else {})
    return Result(
        **told,
        schema="regard.lab/1",
        lab=lab.name,
        number=lab.number,
        title=lab.title,
        quotes=list(lab.quotes),
        quote_verdicts=[verdict_of(found.checks, number + 1) for number in range(len(lab.quotes))],
        design=lab.design,
        verdict=verdict_of(found.checks),
        expected=lab.expected,
        sabotage=lab.sabotage if setting.broken and found.checks else None,
        settings={"size": setting.size, "seed": setting.seed},
        environment=environment(),
        seconds=seconds,
    )


def environment() -> dict[str, str | int]:
    """Versions, threads and the kind of machine."""
    import torch

    import regard

    return {
        "regard": regard.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }
