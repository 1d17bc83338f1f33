"""One query by hand: the steps are the weights, and what they sum to is what the head gave."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.inspection.hand import Numbers, by_hand, numbers
from regard.inspection.reading import read
from regard.inspection.tape import record


@pytest.mark.parametrize(
    ("kind", "name"), [("translate", "decoder.blocks.0.attention.attend"), ("classify", "encoder.*0.attention.attend")]
)
def test_steps_are_the_recorded_weights(made: Any, kind: str, name: str) -> None:
    its = made(kind)
    reading = read(its, "A dog runs in the park")
    with torch.no_grad(), record(its.model, [name]) as tape:
        reading.answer(its.model)
    name = tape.names[0]
    tokens = tape.weights(name).shape[2]
    found = numbers(tape, name, 2, tokens)
    assert found is not None
    for query in (0, tokens - 1):
        steps = by_hand(found, query)
        weights = tape.weights(name, 2)[0, query]
        assert steps.weights == pytest.approx(weights.tolist(), abs=1e-5)
        assert steps.output == pytest.approx(found.out[query].tolist(), abs=1e-4)
        assert steps.scaled == pytest.approx([value * found.scale for value in steps.products])
        barred = tape.masked(name)
        assert [one is None for one in steps.scores] == (
            barred[0, query].tolist() if barred is not None else [False] * tokens
        )


def test_a_query_that_sees_nothing_sums_nothing() -> None:
    q, k, v = torch.ones(1, 2), torch.ones(3, 2), torch.ones(3, 2)
    steps = by_hand(Numbers(q, k, v, None, 0.5, torch.ones(1, 3, dtype=torch.bool), v[:1]), 0)
    assert steps.weights == [0.0] * 3
    assert steps.output == [0.0] * 2
    with pytest.raises(ValueError, match="queries 0 to 0, not 1"):
        by_hand(Numbers(q, k, v, None, 0.5, None, v[:1]), 1)


def test_biases_are_added() -> None:
    q, k, v = torch.randn(2, 3), torch.randn(4, 3), torch.randn(4, 3)
    bias = torch.randn(2, 4)
    steps = by_hand(Numbers(q, k, v, bias, 0.5, None, v[:2]), 1)
    assert steps.weights == pytest.approx((q[1] @ k.T * 0.5 + bias[1]).softmax(0).tolist(), abs=1e-6)


def test_scores_that_are_no_products_have_no_such_numbers(made: Any) -> None:
    its = made("bahdanau")
    reading = read(its, "A dog", "Un chien")
    with torch.no_grad(), record(its.model) as tape:
        reading.answer(its.model)
    assert numbers(tape, "decoder.attend", 0, len(reading.said)) is None
