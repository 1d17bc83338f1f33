"""Words for a place, traces and changes, asked of a model directly."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.inspection import gate_heads
from regard.layout import Layout
from regard.serving.insight import METHODS, Place, Subject, candidates, change, tools, trace

TEXT = "A dog runs in the park ."


def test_what_can_be_asked_follows_from_what_a_model_does(models: list[Any]) -> None:
    asked = {served.name: served.tools for served in models}
    assert asked["en-fr"] == asked["tales"] == ("trace", "change", "words")
    assert asked["vectors"] == asked["marks"] == ("trace", "change")

    class OfImages:
        _tokenizers = None

    assert tools(OfImages(), ["classify"]) == ()


def test_the_likeliest_word_of_a_translator_is_what_greedy_search_writes(translator: Any) -> None:
    whole = translator.translate([TEXT], num_beams=1, max_length=40)[0]
    found = candidates(translator, Place(TEXT), 6)
    assert len(found) <= 6
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
    assert 0 < sum(one.probability for one in found) <= 1 + 1e-5
    assert any(whole.startswith(one.text.lstrip()) for one in found if one.text.strip())
    # a candidate that begins as greedy search does is written on as greedy search writes
    first = max(found, key=lambda one: (whole.startswith(one.text.lstrip()), len(one.text)))
    assert whole.startswith(first.text.lstrip())


def test_a_word_is_as_likely_as_its_tokens(translator: Any) -> None:
    prefix = "Un chien"
    target, model = translator.tokenizers.target, translator.model
    begun, (start, _) = target.encode(prefix), translator.marks()
    (source, _), _ = translator.frame(translator.tokenizer.encode(TEXT))
    with torch.no_grad():
        logits = model(torch.tensor([source]), torch.tensor([[start, *begun]])).logits[0, -1].float().clone()
    logits[[n for n in (target.pad, target.bos, target.mask, target.unk) if n is not None]] = -torch.inf
    chances = logits.softmax(0).tolist()
    texts = [target.decode([*begun, number])[len(prefix) :] for number in range(target.vocab_size)]
    found = candidates(translator, Place(TEXT, prefix), 12)
    for one in found:
        if not one.end:  # its first token may be any that it begins with; the others only make it less likely
            most = sum(p for text, p in zip(texts, chances) if text and one.text.startswith(text))
            assert 0 < one.probability <= most + 1e-6
    ends = [one.probability for one in found if one.end]
    assert ends == pytest.approx([chances[target.eos]] * len(ends), rel=1e-4)


def test_a_language_model_is_asked_in_the_same_way(generator: Any) -> None:
    found = candidates(generator, Place("A dog", " runs"), 4)
    assert 1 <= len(found) <= 4
    whole = generator.generate(["A dog runs"], max_new_tokens=12)[0]
    assert any(whole.startswith(one.text) for one in found)
    assert candidates(generator, Place("A dog", " runs"), 4) == found  # nothing is left behind


def test_where_an_answer_may_end(translator: Any) -> None:
    model = translator.model
    weight = model.head.project.weight.data
    before = weight.clone()
    try:
        weight[3] = 0.0
        with torch.no_grad():
            state = model.start(model.encode(torch.tensor([[5, 3]])), 2)
            hidden = model.decoder(torch.tensor([[2]]), state, Layout.unpadded(1))[0, -1]
            (source, _), _ = translator.frame(translator.tokenizer.encode(TEXT))
            state = model.start(model.encode(torch.tensor([source])), 2)
            hidden = model.decoder(torch.tensor([[2]]), state, Layout.unpadded(1))[0, -1]
            weight[3] = 9 * hidden
        found = candidates(translator, Place(TEXT), 3)
        assert (found[0].text, found[0].end) == ("", True)
        assert found[0].probability > 0.5
    finally:
        weight.copy_(before)


@pytest.mark.parametrize("name", ["translator", "generator", "classifier", "embedder"])
def test_every_model_of_text_gives_a_trace(name: str, request: pytest.FixtureRequest) -> None:
    found = trace(request.getfixturevalue(name), Subject(TEXT))
    assert found.attentions
    assert found.checks.equal_bits


def test_a_trace_of_all_methods(translator: Any) -> None:
    found = trace(translator, Subject(TEXT, target="Un chien court", methods=METHODS))
    assert {one.method for one in found.attributions} == set(METHODS)
    assert found.sides["target"].text.strip() == "Un chien court"


def test_a_pair_is_looked_at(classifier: Any) -> None:
    found = trace(classifier, Subject("A dog .", pair="Two men ."))
    assert "Two men" in found.sides["source"].text


def test_what_silent_heads_change(translator: Any) -> None:
    name = "decoder.blocks.0.cross.attend"
    gates = ((name, ((0, 0.0), (1, 0.0))),)
    found = change(translator, Subject(TEXT, gates=gates))
    with gate_heads(translator.model, {name: {0: 0.0, 1: 0.0}}):
        assert found["text"] == translator.translate([TEXT])[0]
    assert found["name"] == f"{name}: 0+1"
    assert found["difference"] != 0
    same = change(translator, Subject(TEXT, gates=((name, ((0, 1.0),)),)))
    assert same["difference"] == 0
    assert same["text"] == translator.translate([TEXT])[0]


def test_what_silent_heads_change_of_a_class(classifier: Any) -> None:
    found = change(classifier, Subject(TEXT, gates=(("encoder.blocks.0.attention.attend", ((0, 0.0),)),)))
    assert found["text"] in classifier.labels
