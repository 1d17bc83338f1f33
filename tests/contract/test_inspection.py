"""What is seen of every architecture, and that looking changes nothing."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.inspection.change import gate_heads, head_importance
from regard.inspection.lens import spoken, states
from regard.inspection.tape import attentions, record
from regard.layout import Layout

SOURCES = [[3, 4, 5, 6, 7], [8, 3, 2], [9, 2]]
OUTPUTS = [[2, 5, 3], [2, 4, 6, 7, 8], [2, 9, 9, 4]]


def padded(rows: list[list[int]]) -> tuple[Tensor, Layout]:
    length = max(map(len, rows))
    ids = torch.tensor([row + [7] * (length - len(row)) for row in rows])
    return ids, Layout.padded([len(row) for row in rows])


def answer(model: Any, sources: list[list[int]], outputs: list[list[int]]) -> Tensor:
    if model.encoder is None or model.decoder is None:
        ids, layout = padded(sources if model.decoder is None else outputs)
        return model(ids, layout=layout).logits
    ids, layout = padded(sources)
    read, output_layout = padded(outputs)
    return model(ids, read, layout=layout, output_layout=output_layout).logits


@pytest.mark.parametrize("rows", [1, 3])
def test_recording_changes_no_bit(family: Any, rows: int) -> None:
    """S-INSP-04, S-INSP-07: with padding in the batch and without."""
    model = family.make(torch.float32)
    plain = answer(model, SOURCES[:rows], OUTPUTS[:rows])
    if not attentions(model):
        with pytest.raises(RuntimeError, match="no attention of this model was called"), record(model):
            answer(model, SOURCES[:rows], OUTPUTS[:rows])
        return
    with record(model) as tape:
        recorded = answer(model, SOURCES[:rows], OUTPUTS[:rows])
    assert torch.equal(plain, recorded)
    assert torch.equal(plain, answer(model, SOURCES[:rows], OUTPUTS[:rows]))
    assert tape.names == [name for name in attentions(model) if tape.calls[name]]
    assert tape.bytes > 0


@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_weights_sum_to_one_and_make_what_the_head_gave(family: Any, dtype: torch.dtype, near: float) -> None:
    model = family.make(dtype)
    with record(model) if attentions(model) else nullcontext() as tape:
        answer(model, SOURCES, OUTPUTS)
    for name in tape.names if tape else ():
        check = tape.check(name)
        assert check.row_sum < near, name
        assert check.output < near, name
        weights = tape.weights(name)
        assert weights.dtype == dtype
        barred = tape.masked(name)
        if barred is not None:
            assert (weights.masked_select(barred[:, None].expand(weights.shape)) == 0).all(), name


def test_weights_in_single_precision_are_those_in_double(family: Any) -> None:
    narrow, wide = family.make(torch.float32), family.make(torch.float64)
    if not attentions(narrow):
        pytest.skip("no attention")
    with record(narrow) as one, record(wide) as other:
        for model in (narrow, wide):
            answer(model, SOURCES, OUTPUTS)
    for name in one.names:
        torch.testing.assert_close(one.weights(name).double(), other.weights(name), atol=1e-4, rtol=0)


def test_parts_are_the_parts_of_the_whole(family: Any) -> None:
    """Heads, rows and queries that are asked for alone are those of the whole, and no others are made."""
    model = family.make()
    if not attentions(model):
        pytest.skip("no attention")
    with record(model) as tape:
        answer(model, SOURCES, OUTPUTS)
    for name in tape.names:
        whole = tape.weights(name)
        head, last = whole.shape[1] - 1, whole.shape[2] - 1
        part = tape.weights(name, head, rows=[2, 0], queries=[0, last])
        torch.testing.assert_close(part, whole[[2, 0], head][:, [0, last]], atol=1e-12, rtol=0)


def test_there_is_a_row_for_each_token(family: Any) -> None:
    """S-INSP-03: also where a model asks for every token anew, or one after another."""
    model = family.make()
    if not attentions(model):
        pytest.skip("no attention")
    with record(model) as tape:
        answer(model, SOURCES[:1], OUTPUTS[1:2])
    for name in tape.names:
        tokens = len(SOURCES[0] if name.startswith("encoder.") else OUTPUTS[1])
        if ".everywhere." not in name:
            assert tape.weights(name, queries=tape.answered(name, tokens)).shape[2] == tokens, name


def test_gates_of_one_change_no_bit_and_importance_is_their_gradient(family: Any) -> None:
    model = family.make()
    names = attentions(model)
    if not names:
        pytest.skip("no attention")
    plain = answer(model, SOURCES, OUTPUTS)
    with record(model) as tape:
        answer(model, SOURCES, OUTPUTS)
    ones = {name: dict.fromkeys(range(tape.heads(name)), 1.0) for name in tape.names}
    with gate_heads(model, ones):
        assert torch.equal(plain, answer(model, SOURCES, OUTPUTS))
    name, step = tape.names[-1], 1e-5
    importance = head_importance(model, lambda: answer(model, SOURCES, OUTPUTS).square().sum())
    losses = []
    for factor in (1 + step, 1 - step):
        with torch.no_grad(), gate_heads(model, {name: {0: factor}}):
            losses.append(float(answer(model, SOURCES, OUTPUTS).square().sum()))
    assert importance[name][0] == pytest.approx(abs(losses[0] - losses[1]) / (2 * step), rel=1e-4, abs=1e-6)
    assert set(importance) == set(tape.names)


def test_the_last_layer_says_what_the_model_says(family: Any) -> None:
    """Bit for bit, through the right last norm."""
    model = family.make(torch.float32)
    last = model.encoder if model.decoder is None else model.decoder
    if not hasattr(last, "blocks") or model.description.head.kind not in ("next", "masked"):
        pytest.skip("speaks from no stack of blocks")
    with torch.no_grad(), states(last) as seen:
        plain = answer(model, SOURCES[:1], OUTPUTS[1:2])[0]
    rows = seen.rows(len(plain))
    assert len(rows) == len(last.blocks) + 1
    torch.testing.assert_close(spoken(model, last, rows[-1]), plain, atol=1e-6, rtol=0)
    assert not torch.allclose(spoken(model, last, rows[0]), plain, atol=1e-2)
