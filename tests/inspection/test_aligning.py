"""Words and their sources; the head that shows them is found by measuring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.errors import UserError
from regard.inspection import aligning, inspect
from regard.inspection.aligning import KEY, Head, chosen_head, measure, pharaoh, store, word_links, word_weights
from regard.inspection.attribution import Owed
from regard.inspection.sides import side_of_text
from regard.inspection.tape import record

TEXTS = ["A dog runs in the park .", "Two men play football .", "The red house is near the sea .", ""]


def test_rows_of_words_keep_their_sum(made: Any) -> None:
    """To a word the sum of its tokens, from a word their mean (Clark et al. 2019)."""
    its = made("translate")
    source, target = side_of_text(its, "football house")[0], side_of_text(its, "dog 这")[0]
    weights = torch.rand(len(target.tokens), len(source.tokens)).softmax(-1)
    words = word_weights(weights, target, source)
    assert words.shape == (2, 2)
    members = [[n for n, t in enumerate(source.tokens) if t.word == w] for w in range(2)]
    rows = [[n for n, t in enumerate(target.tokens) if t.word == w] for w in range(2)]
    for word, those in enumerate(rows):
        for column, its_tokens in enumerate(members):
            want = weights[those][:, its_tokens].sum(1).mean()
            assert float(words[word, column]) == pytest.approx(float(want), abs=1e-6)
    specials = weights[:, [n for n, t in enumerate(source.tokens) if t.word < 0]].sum(1)
    assert float(words[1].sum()) == pytest.approx(float((1 - specials)[rows[1]].mean()), abs=1e-5)


def test_pharaohs_format(made: Any) -> None:
    its = made("translate")
    source, target = side_of_text(its, "a b c")[0], side_of_text(its, "x y")[0]
    weights = torch.zeros(len(target.tokens), len(source.tokens))
    for row, token in enumerate(target.tokens):
        for column, other in enumerate(source.tokens):
            weights[row, column] = 1.0 if (token.word, other.word) in ((0, 2), (1, 0)) else 0.0
    assert pharaoh(word_links(weights, target, source)) == "0-1 2-0"


@pytest.mark.parametrize(("layer", "head"), [(0, 1), (1, 2)])
def test_the_head_that_looks_at_what_matters_is_found(made: Any, monkeypatch: Any, layer: int, head: int) -> None:
    """Where a word matters just as much as one head looks at it, that head agrees everywhere and is chosen."""
    its, name = made("translate"), f"decoder.blocks.{layer}.cross.attend"

    def falls(model: Any, reading: Any, questions: Any, groups: Any) -> Owed:
        with torch.no_grad(), record(model, [name]) as tape:
            reading.answer(model)
        weights = tape.weights(name, head)[0][[question.place for question in questions]]
        return Owed({"source": torch.stack([weights[:, tokens].sum(1) for tokens in groups["source"]], 1)})

    monkeypatch.setattr(aligning, "occlusion", falls)
    found = measure(its, TEXTS)
    assert (found.attention, found.head, found.agreement) == (name, head, 1.0)
    assert found.tokens > 3
    assert found.baseline is not None
    assert found.baseline < 1.0


def test_it_is_measured_by_what_matters_to_the_model(made: Any) -> None:
    found = measure(made("bahdanau"), TEXTS)
    assert found.attention == "decoder.attend"
    assert found.agreement is not None
    assert 0 <= found.agreement <= 1
    assert measure(made("bahdanau"), TEXTS[:1]).tokens > 0


def test_it_is_kept_with_the_model(made: Any, tmp_path: Path) -> None:
    its = made("translate")
    its.save(tmp_path)
    head = Head("decoder.blocks.0.cross.attend", 2, 0.75, 0.5, 40)
    store(tmp_path, head)
    again = regard.load(tmp_path)
    assert chosen_head(again.model, again.meta) == head
    trace = inspect(again, "A dog", "Un chien")
    assert trace.alignment is not None
    assert (trace.alignment.attention, trace.alignment.head, trace.alignment.measured) == (head.attention, 2, True)
    assert (trace.array(trace.alignment.matrix) == trace.weights(head.attention, 2)).all()
    again.save(tmp_path / "copy")
    assert regard.load(tmp_path / "copy").meta[KEY]["head"] == 2
    assert json.loads((tmp_path / "regard.json").read_text("utf-8"))["version"] == 1


def test_without_measuring_it_is_the_last_layers_mean(made: Any) -> None:
    model = made("translate").model
    assert chosen_head(model, {}) == Head("decoder.blocks.1.cross.attend", None)
    assert chosen_head(model, {KEY: {"attention": "gone", "head": 1, "tokens": 3}}) == chosen_head(model, {})
    assert chosen_head(made("no-attention").model, {}) is None


def test_mistakes(made: Any, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not look at its source"):
        measure(made("no-attention"), TEXTS)
    with pytest.raises(UserError, match="no text has a word"):
        measure(made("translate"), ["", "  "])
    with pytest.raises(UserError, match=r"has no regard\.json"):
        store(tmp_path, Head("x", 0))
