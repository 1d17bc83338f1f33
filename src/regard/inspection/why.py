"""Attributions of a reading as values of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from regard.errors import UserError
from regard.inspection.attribution import METHODS, STEPS, Owed, Question, input_x_gradient
from regard.inspection.blocks import Blocks
from regard.inspection.parts import FAR
from regard.inspection.reading import Reading
from regard.inspection.values import Attribution, Contrast

ROWS = 32
"""So many tokens of a long text's answer are asked about, at most."""


def attributions(
    loaded: Any,
    reading: Reading,
    methods: Sequence[str],
    contrast: tuple[int, str] | None,
    plain: Tensor,
    blocks: Blocks,
) -> list[Attribution]:
    """What each row owes to each input token, by each method; and for a contrast why its token rather than another."""
    wrong = [name for name in methods if name not in METHODS]
    if wrong:
        raise UserError(f"no method is called {wrong[0]!r}; there are {', '.join(METHODS)}")
    far = max(len(side.tokens) for side in reading.sides.values()) > FAR
    asked = questions(reading, plain)[: ROWS if far else None]
    found = []
    for name in methods if asked else ():
        made: Owed = METHODS[name](loaded.model, reading, asked)  # type: ignore[operator]
        what = "log-probability of the token" if reading.said else "log-probability of the class"
        steps = STEPS if name == "integrated_gradients" else None
        found += values(name, made, reading, asked, what, steps, blocks)
    if contrast is not None:
        its = contrasted(loaded, reading, contrast, plain)
        made = input_x_gradient(loaded.model, reading, [its])
        told = Contrast(row=its.place, chosen=its.token, other=its.other or 0)
        ratio = "log-probability of the token less that of the other"
        found += values("contrastive", made, reading, [its], ratio, None, blocks, told)
    return found


def questions(reading: Reading, plain: Tensor) -> list[Question]:
    """Why each row said what it said, or the class that is likeliest. Where a place hid its token: why the likeliest."""
    if not reading.said:
        return [Question(0, int(plain[0].argmax()))]
    if reading.task == "fill":
        places = [n for n, number in enumerate(reading.said) if number is None]
        return [Question(n, int(plain[n].argmax())) for n in places]
    begin = max(0, reading.sides["read"].prompt - 1)
    return [Question(n, number) for n, number in enumerate(reading.said) if number is not None and n >= begin]


def contrasted(loaded: Any, reading: Reading, contrast: tuple[int, str], plain: Tensor) -> Question:
    """The question of a contrast: (row, text), or of classes (0, label). UserError: there is no such row, label or token."""
    place, text = contrast
    if not reading.said:
        if text not in loaded.labels:
            raise UserError(f"there is no label {text!r}; there are {', '.join(loaded.labels)}")
        return Question(0, int(plain[0].argmax()), loaded.labels.index(text))
    if not 0 <= place < len(reading.said):
        raise UserError(f"there are rows 0 to {len(reading.said) - 1}, not {place}")
    ids = loaded.tokenizers.target.encode(text)
    if not ids:
        raise UserError("the text of a contrast is empty")
    said = reading.said[place]
    return Question(place, int(plain[place].argmax()) if said is None else said, ids[0])


def values(
    method: str,
    owed: Owed,
    reading: Reading,
    asked: Sequence[Question],
    what: str,
    steps: int | None,
    blocks: Blocks,
    contrast: Contrast | None = None,
) -> list[Attribution]:
    """One for each side whose tokens the model read."""
    return [
        Attribution(
            method=method,
            rows=reading.rows,
            columns=side,
            places=[its.place for its in asked],
            block=blocks.add(f"{method}.{side}", scores, "float32"),
            what=what,
            contrast=contrast,
            steps=steps,
            error=owed.error,
            total=scores.sum(1).tolist(),
        )
        for side, scores in owed.scores.items()
    ]
