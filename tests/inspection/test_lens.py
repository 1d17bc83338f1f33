"""What each layer would say."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.inspection import inspect
from regard.inspection.lens import spoken, states
from regard.inspection.reading import read


@pytest.mark.parametrize("kind", ["translate", "generate", "experts", "fill"])
def test_the_last_layer_is_the_answer(made: Any, kind: str) -> None:
    trace = inspect(made(kind), "A dog runs")
    assert trace.lens is not None
    assert trace.predictions is not None
    assert trace.lens.layers == ["embeddings", "block 0", "block 1"]
    assert trace.lens.checked == 0.0
    for last, said in zip(trace.lens.top[-1], trace.predictions.top):
        assert [one.id for one in last] == [one.id for one in said[:5]]
    ranks = [one.rank for one in trace.lens.chosen[-1] if one]
    assert ranks == [one.rank for one in trace.predictions.chosen if one]


@pytest.mark.parametrize("kind", ["bahdanau", "classify", "tag", "embed", "image"])
def test_others_have_none_and_say_so(made: Any, kind: str) -> None:
    import numpy as np

    picture = (np.arange(64).reshape(8, 8) * 4).astype(np.uint8)
    trace = inspect(made(kind), picture if kind == "image" else "A dog")
    assert trace.lens is None
    assert any("no logit lens" in note for note in trace.checks.notes)


def test_a_pre_norm_stack_speaks_through_its_last_norm(made: Any) -> None:
    model = made("generate").model
    assert model.decoder.last_norm is not None
    reading = read(made("generate"), "A dog", " runs")
    with torch.no_grad(), states(model.decoder) as seen:
        plain = reading.logits(model)[0]
    rows = seen.rows(len(plain))
    torch.testing.assert_close(spoken(model, model.decoder, rows[-1]), plain)
    raw = model.head.project(rows[-1])
    assert not torch.allclose(raw, plain, atol=1e-2)


def test_tokens_read_one_by_one_have_the_same_states(made: Any) -> None:
    its = made("translate")
    reading = read(its, "A dog", "Un chien")
    with torch.no_grad():
        with states(its.model.decoder) as whole:
            reading.answer(its.model)
        with states(its.model.decoder) as steps:
            state = its.model.start(its.model.encode(reading.inputs), len(reading.said))
            for token in reading.outputs[0]:  # type: ignore[index]
                its.model.step(token.view(1, 1), state)
    for one, other in zip(whole.rows(len(reading.said)), steps.rows(len(reading.said))):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
