"""From a recorded pass to values."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.inspection.parts import labelled, layer_of, predictions, score_of, vocabulary, wanted
from regard.inspection.reading import read
from regard.inspection.tape import attentions


def test_names_say_their_layers() -> None:
    assert layer_of("decoder.blocks.11.cross.attend") == 11
    assert layer_of("decoder.attend") == 0


def test_scores_have_names(made: Any) -> None:
    assert score_of(attentions(made("translate").model)["decoder.blocks.0.cross.attend"]) == "dot"
    assert score_of(attentions(made("bahdanau").model)["decoder.attend"]) == "additive"


def test_predictions_are_the_softmax(made: Any) -> None:
    its = made("translate")
    reading = read(its, "A dog", "Un chien")
    with torch.no_grad():
        logits = reading.logits(its.model)[0]
    found = predictions(logits, reading)
    odds = logits.softmax(-1)
    for row, (chances, chosen) in enumerate(zip(found.top, found.chosen)):
        assert [one.p for one in chances] == pytest.approx(odds[row].topk(10).values.tolist(), rel=1e-4)
        assert chosen is not None
        assert chosen.p == pytest.approx(float(odds[row, chosen.id]), abs=1e-6)
        assert chosen.rank == 1 + int((odds[row] > odds[row, chosen.id]).sum())
        assert found.entropy[row] == pytest.approx(float(torch.distributions.Categorical(odds[row]).entropy()), abs=1e-4)


def test_forbidden_tokens_have_finite_numbers(made: Any) -> None:
    reading = read(made("translate"), "A dog", "Un")
    logits = torch.zeros(len(reading.said), 330)
    logits[0, reading.said[0]] = float("-inf")
    chosen = predictions(logits, reading).chosen[0]
    assert chosen is not None
    assert (chosen.p, chosen.log_prob, chosen.rank) == (0.0, -1e9, 330)


def test_one_class_alone_is_there_or_not() -> None:
    class Loaded:
        labels = ("spam",)

    assert labelled(Loaded(), torch.tensor([0.0]))[0].p == pytest.approx(0.5)


def test_ids_that_no_text_has_are_told_by_number(made: Any) -> None:
    tokenizer = made("translate").tokenizer
    found = vocabulary(tokenizer, [tokenizer.eos, 5000, tokenizer.encode("dog")[-1]])
    assert found["5000"].piece == "#5000"
    assert found[str(tokenizer.eos)].text == ""
    assert len(found) == 3


def test_layers_and_heads_that_are_not_there(made: Any) -> None:
    model = made("translate").model
    names = list(attentions(model))
    assert wanted(model, names, [0], None) == [name for name in names if ".0." in name]
    assert wanted(model, names, None, [3]) == names
    with pytest.raises(ValueError, match="there is no attention in layer 2; there are layers 0, 1"):
        wanted(model, names, [2], None)
    with pytest.raises(ValueError, match="there are heads 0 to 3, not 9"):
        wanted(model, names, None, [9])
