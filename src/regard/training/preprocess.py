"""Steps that change text before anything is learned from it, named by `data.preprocess`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from regard.errors import UserError
from regard.text.corpus import Pair
from regard.text.words import turned

Change = Callable[[str], str]
Maker = Callable[[str, str], tuple[Change, Change]]
"""From the languages of source and target to what is done to a line of either."""

_STRESS = re.compile(r"(?<=[A-Z])[012](?=\s|$)")


def _moses_lc(source: str, target: str) -> tuple[Change, Change]:
    from regard.evaluation.moses import Moses

    return Moses(source), Moses(target)


def _no_stress(source: str, target: str) -> tuple[Change, Change]:
    return _same, lambda text: _STRESS.sub("", text)


def _right_to_left(source: str, target: str) -> tuple[Change, Change]:
    return _same, turned


def _same(text: str) -> str:
    return text


STEPS: dict[str, Maker] = {"moses-lc": _moses_lc, "no-stress": _no_stress, "right-to-left": _right_to_left}
"""moses-lc: both sides lower-cased, normalised and tokenised as Multi30k's published scale has it. no-stress: the digits
0, 1, 2 behind ARPAbet vowels of the target go. right-to-left: the target's words stand in the opposite order, so that the
model writes a sentence from its end (for `regard rerank`)."""


def preprocess(pairs: Sequence[Pair], steps: Sequence[str], source: str, target: str) -> list[Pair]:
    """The pairs with every step done to them in order; languages by their codes. UserError for an unknown step."""
    for name in steps:
        if name not in STEPS:
            raise UserError(f"data.preprocess: unknown step {name!r}; known: {', '.join(STEPS)}")
        left, right = STEPS[name](source, target)
        pairs = [replace(pair, source=left(pair.source), target=right(pair.target)) for pair in pairs]
    return list(pairs)
