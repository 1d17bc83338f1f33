"""Links between the words of a translation and its source."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
import torch

from regard.inspection.aligning import KEY, Head
from regard.inspection.tape import align, record
from regard.models import rnn
from regard.serving.linking import Link, linked, links, links_words, words
from regard.translator import Translator


def test_words_are_runs_marks_and_chinese_characters() -> None:
    text = "Don't 你好 a1_b, é!"
    assert [text[a:b] for a, b in words(text)] == ["Don", "'", "t", "你", "好", "a1_b", ",", "é", "!"]


def test_each_word_is_linked_to_the_one_it_looked_at_most(translator: Any) -> None:
    [found] = translator.translate(["A dog runs ."], details=True)
    made = links(translator, found)
    source, target = words(found.source), words(found.text)
    assert [link.target for link in made] == target[: len(made)]
    assert made
    ids = translator.tokenizer.tokens(found.source)
    weights = align(translator.model, [*ids.ids, 3], [2, *found.ids[:-1]])
    spans, place, stream = [], 0, translator.tokenizer.stream()
    for number in found.ids:
        text = stream.push(number)
        spans.append((place, place + len(text)))
        place += len(text)
    for link in made:
        rows = [n for n, (a, b) in enumerate(spans) if min(b, link.target[1]) > max(a, link.target[0])]
        shares = torch.zeros(len(source))
        for column, (a, b) in enumerate(ids.offsets):
            for word, (c, d) in enumerate(source):
                if min(b, d) > max(a, c):
                    shares[word] += weights[rows, column].mean()
        assert link.weight == pytest.approx(float(shares.max()), abs=1e-3)
        assert link.source == source[int(shares.argmax())] == source[link.words[0]]
        assert link.target == target[link.words[1]]
        assert 0 < link.weight <= 1


def test_no_links_where_nothing_can_be_read_off(translator: Any, tokenizers: Any) -> None:
    [empty] = translator.translate([""], details=True)
    assert links(translator, empty) == ()
    torch.manual_seed(1)
    plain = rnn.describe(vocab_size=tokenizers.source.vocab_size, num_layers=1, d_model=8, attention="none").build().eval()
    without = Translator(plain, tokenizers, translator.search, {})
    assert links_words(translator)
    assert not links_words(without)
    [found] = without.translate(["A dog runs ."], details=True)
    assert links(without, found) == ()
    assert Link((0, 1), (0, 1), (0, 0), 0.5) == Link((0, 1), (0, 1), (0, 0), 0.5)


def test_the_head_that_was_measured_is_the_one_that_is_read(translator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = translator.translate(["A dog runs in the park ."], details=True)
    usual = linked(translator, found).weights
    head = Head("decoder.blocks.0.cross.attend", 1, 0.9, 0.5, 10)
    monkeypatch.setitem(translator.meta, KEY, asdict(head))
    measured = linked(translator, found).weights
    assert measured != usual
    ids, [start, _] = translator.tokenizer.tokens(found.source).ids, translator.marks()
    [inputs, _], _ = translator.frame(ids)
    with torch.no_grad(), record(translator.model, [head.attention]) as tape:
        translator.model(torch.tensor([inputs]), torch.tensor([[start, *found.ids[:-1]]]))
    wanted = tape.weights(head.attention, 1)[0]
    alone = align(translator.model, inputs, [start, *found.ids[:-1]], chosen=(head.attention, 1))
    torch.testing.assert_close(alone, wanted)
