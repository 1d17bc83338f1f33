"""Attributions as values: who is asked about, and what the numbers sum to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from regard.inspection import inspect
from regard.inspection.reading import read
from regard.inspection.why import contrasted, questions


def test_each_row_is_asked_about_each_side(made: Any) -> None:
    methods = ("input_x_gradient", "occlusion", "integrated_gradients")
    trace = inspect(made("translate"), "A dog", "Un chien", methods=methods)
    assert [(one.method, one.columns) for one in trace.attributions] == [
        (method, side) for method in methods for side in ("source", "read")
    ]
    for one in trace.attributions:
        cells = trace.array(one.block)
        assert cells.shape == (len(one.places), len(trace.sides[one.columns].tokens))
        np.testing.assert_allclose(cells.sum(1), one.total, rtol=1e-4, atol=1e-4)
        assert (one.error is not None) == (one.method == "integrated_gradients") == (one.steps is not None)


def test_a_contrast_names_its_tokens(made: Any) -> None:
    trace = inspect(made("translate"), "A dog", "Un chien", methods=(), contrast=(0, "La"))
    one = trace.attributions[0]
    assert one.method == "contrastive"
    assert one.places == [0]
    assert one.contrast is not None
    assert one.contrast.chosen == trace.sides["target"].tokens[0].id
    assert one.contrast.other == made("translate").tokenizer.encode("La")[0]
    classes = inspect(made("classify"), "A dog", methods=(), contrast=(0, "LABEL_2")).attributions[0]
    assert classes.rows == "class"
    assert classes.contrast is not None
    assert classes.contrast.other == 2


def test_a_prompt_is_not_asked_about(made: Any) -> None:
    its = made("generate")
    reading = read(its, "A dog", " runs")
    asked = questions(reading, torch.zeros(len(reading.said), 330))
    assert asked[0].place == reading.sides["read"].prompt - 1
    assert asked[-1].place == len(reading.said) - 1


def test_the_other_token_may_stand_against_a_hidden_one(made: Any) -> None:
    its = made("translate")
    reading = read(its, "A dog", "Un")
    plain = torch.zeros(len(reading.said), 330)
    plain[0, 17] = 1.0
    hidden = type(reading)(reading.task, reading.sides, reading.inputs, reading.layout, said=[None, *reading.said[1:]])
    assert contrasted(its, hidden, (0, "La"), plain).token == 17
    with pytest.raises(Exception, match="contrast is empty"):
        contrasted(its, reading, (0, ""), plain)
