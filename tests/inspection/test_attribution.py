"""Attributions against what they promise: a linear answer, a sum that is complete, a token that is taken away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regard.inspection.attribution import Inputs, Question, input_x_gradient, integrated_gradients, occlusion
from regard.inspection.reading import read

KINDS = ["translate", "bahdanau", "no-attention", "generate", "classify", "image"]


def reading_of(made: Any, kind: str) -> Any:
    if kind == "image":
        return read(made(kind), (np.arange(64).reshape(8, 8) * 4).astype(np.uint8))
    return read(made(kind), "A dog runs", **({"target": "Un chien"} if kind in ("translate", "bahdanau") else {}))


def question_of(reading: Any) -> Question:
    return Question(0, reading.said[0]) if reading.said else Question(0, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_its_own_vectors_change_nothing(made: Any, kind: str) -> None:
    reading, model = reading_of(made, kind), made(kind).model
    inputs = Inputs(model, reading)
    with torch.no_grad():
        torch.testing.assert_close(inputs.logits(inputs.copies(2))[1:], reading.logits(model), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_integrated_gradients_are_complete(made: Any, kind: str) -> None:
    """The sum of the scores is the value less the value at the baseline; the error told is that difference, and more steps
    make it smaller."""
    reading, model = reading_of(made, kind), made(kind).model
    its = question_of(reading)
    few, many = (integrated_gradients(model, reading, [its], steps) for steps in (2, 96))
    inputs = Inputs(model, reading)
    with torch.no_grad():
        nothing = {name: torch.zeros_like(one) for name, one in inputs.vectors.items()}
        fall = float(its.value(reading.logits(model)) - its.value(inputs.logits(nothing)))
    for owed in (few, many):
        assert owed.error is not None
        assert owed.error[0] == pytest.approx(abs(sum(float(one.sum()) for one in owed.scores.values()) - fall), abs=1e-4)
    size = sum(float(one.abs().sum()) for one in many.scores.values())
    assert (many.error or [9.0])[0] < 0.03 * size
    assert (many.error or [9.0])[0] < (few.error or [0.0])[0]


@pytest.mark.parametrize("kind", KINDS)
def test_input_x_gradient_is_a_slope(made: Any, kind: str) -> None:
    """Against finite differences: how fast the value falls as a token's vector shrinks."""
    reading, model = reading_of(made, kind), made(kind).model
    its, inputs, step = question_of(reading), Inputs(model, reading), 1e-2
    owed = input_x_gradient(model, reading, [its])
    name = reading.first
    place = 1 if kind == "image" else 0
    values = []
    with torch.no_grad():
        for factor in (1 + step, 1 - step):
            vectors = {key: one.clone() for key, one in inputs.vectors.items()}
            if kind == "image":
                vectors[name][:, :, 0, 0] *= factor
            else:
                vectors[name][:, 0] *= factor
            values.append(float(its.value(inputs.logits(vectors))))
    slope = (values[0] - values[1]) / (2 * step)
    assert float(owed.scores[name][0, place]) == pytest.approx(slope, abs=0.02 * max(1.0, abs(slope)))


@pytest.mark.parametrize("kind", KINDS)
def test_occlusion_is_the_fall_without_a_token(made: Any, kind: str) -> None:
    reading, model = reading_of(made, kind), made(kind).model
    its, inputs = question_of(reading), Inputs(model, reading)
    owed = occlusion(model, reading, [its])
    for name, one in inputs.vectors.items():
        with torch.no_grad():
            without = {key: each.clone() for key, each in inputs.vectors.items()}
            if kind == "image":
                without[name][:, :, 1, 0] = 0.0
            else:
                without[name][:, 1 if one.shape[1] > 1 else 0] = 0.0
            fall = float(its.value(reading.logits(model)) - its.value(inputs.logits(without)))
        place = 3 if kind == "image" else 1 if one.shape[1] > 1 else 0
        assert float(owed.scores[name][0, place]) == pytest.approx(fall, abs=1e-4)
    if kind == "image":
        assert float(owed.scores["source"][0, 0]) == pytest.approx(0.0, abs=1e-5)


def test_words_are_taken_away_together(made: Any) -> None:
    reading, model = reading_of(made, "translate"), made("translate").model
    its = question_of(reading)
    count = reading.inputs.shape[1]
    each = occlusion(model, reading, [its])
    grouped = occlusion(model, reading, [its], {"source": [[0], list(range(count))]})
    assert float(grouped.scores["source"][0, 0]) == pytest.approx(float(each.scores["source"][0, 0]), abs=1e-6)
    assert grouped.scores["source"].shape == (1, 2)


def test_contrasts_are_differences(made: Any) -> None:
    """Why A rather than B: scores of A less scores of B, since both share the logarithm of the sum."""
    reading, model = reading_of(made, "translate"), made("translate").model
    one, other = reading.said[0], (reading.said[0] + 1) % 300
    asked = [Question(0, one), Question(0, other), Question(0, one, other)]
    scores = input_x_gradient(model, reading, asked).scores["source"]
    torch.testing.assert_close(scores[2], scores[0] - scores[1], atol=1e-3, rtol=1e-3)


def test_later_tokens_owe_nothing_to_earlier_rows(made: Any) -> None:
    reading, model = reading_of(made, "translate"), made("translate").model
    owed = input_x_gradient(model, reading, [Question(0, reading.said[0])])
    assert (owed.scores["read"][0, 1:] == 0).all()
    assert (owed.scores["read"][0, 0] != 0).all()


def test_questions_are_answered_in_chunks(made: Any) -> None:
    reading, model = read(made("translate"), "A dog", "Un chien court dans le parc ."), made("translate").model
    asked = [Question(place, number) for place, number in enumerate(reading.said)] * 2
    assert len(asked) > 16
    many = input_x_gradient(model, reading, asked).scores["source"]
    torch.testing.assert_close(
        many[20], input_x_gradient(model, reading, [asked[20]]).scores["source"][0], atol=1e-3, rtol=1e-3
    )
