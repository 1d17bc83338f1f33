"""What a model reads and what is forced on it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import regard
from regard.errors import UserError
from regard.inspection.reading import read, shortened


def test_a_translation_is_read_from_its_start_mark(made: Any) -> None:
    its = made("translate")
    reading = read(its, "A dog", "Un chien")
    bos, eos = its.marks()
    ids = its.tokenizers.target.encode("Un chien")
    assert reading.outputs is not None
    assert reading.outputs[0].tolist() == [bos, *ids]
    assert reading.said == [*ids, eos]
    assert reading.inputs[0].tolist() == its.frame(its.tokenizer.encode("A dog"))[0][0]
    assert [reading.sides[name].tokens[0].id for name in ("read", "target")] == [bos, ids[0]]
    assert reading.rows == "target"


def test_its_own_answer_is_the_searchs(made: Any) -> None:
    its = made("translate")
    best = its.translate(["A dog"], details=True, num_beams=3)[0]
    reading = read(its, "A dog", num_beams=3)
    assert [number for number in reading.said if number != its.marks()[1]] == best.ids


def test_a_prompt_and_what_follows(made: Any) -> None:
    its = made("generate")
    reading = read(its, "A dog", max_new_tokens=5)
    found = its.generate(["A dog"], max_new_tokens=5, details=True)[0]
    ids = [its.tokenizer.backend.token_to_id(piece) for piece in found.tokens]
    prompt = its.prompt_ids("A dog")
    assert reading.inputs[0].tolist() == [*prompt, *ids][:-1]
    assert reading.said == [*prompt, *ids][1:]
    assert reading.sides["read"].prompt == len(prompt)
    given = read(its, "A dog", " runs in the park")
    assert [*given.inputs[0].tolist(), given.said[-1]] == its.tokenizer.encode("A dog runs in the park")


def test_copies_are_equal(made: Any) -> None:
    for kind in ("translate", "bahdanau", "generate", "classify", "tag"):
        reading = read(made(kind), "A dog runs")
        with torch.no_grad():
            one, three = reading.logits(made(kind).model), reading.logits(made(kind).model, 3)
        assert three.shape[0] == 3
        torch.testing.assert_close(three[2:], one, atol=1e-5, rtol=0)


def test_masks_hide_what_was_said(foreign: Any) -> None:
    its = regard.load(foreign("bert", "BertForMaskedLM"))
    reading = read(its, f"the {its.mask} fox")
    assert sum(number is None for number in reading.said) == 1
    place = reading.said.index(None)
    assert reading.sides["source"].tokens[place].special
    with torch.no_grad():
        best = int(reading.logits(its.model)[0, place].argmax())
    assert its.tokenizer.piece(best) == its.fill(f"the {its.mask} fox")[0].token


def test_a_model_that_gives_vectors_has_no_probabilities(made: Any) -> None:
    reading = read(made("embed"), "A dog")
    assert reading.rows == "class"
    with pytest.raises(ValueError, match="answers with vectors"):
        reading.logits(made("embed").model)


def test_tokens_can_be_left_out(made: Any) -> None:
    reading = read(made("classify"), "A dog runs")
    less = shortened(reading, "source", [0, 2])
    assert less.inputs[0].tolist() == reading.inputs[0, [0, 2]].tolist()
    assert less.layout.length == 2
    with pytest.raises(ValueError, match="only source can lose tokens"):
        shortened(reading, "target", [0])


def test_what_is_too_long_is_refused(made: Any) -> None:
    with pytest.raises(UserError, match="the model reads 64: shorten them"):
        read(made("generate"), "A dog", " runs in the park ." * 30)
    with pytest.raises(UserError, match="a text or a pair of texts"):
        read(made("classify"), ["a", "b", "c"])
