"""Sentences read before the one that is translated: what they are made of, and that the search counts none of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from regard.decoding import Search
from regard.decoding.alignment import forced
from regard.decoding.context import Before, Context, Trained, after_given, before_of, in_order, marks_between, thread_of
from regard.errors import UserError
from regard.models import rnn, transformer
from regard.text.surfaces import occurs
from regard.text.tokenizer import Plan, Tokenizers, train_tokenizer
from regard.translator import Translation, Translator

ENGLISH = ["A dog runs in the park .", "Two men play football .", "The red house is near the sea ."]
FRENCH = ["Un chien court dans le parc .", "Deux hommes jouent au football .", "La maison rouge est près de la mer ."]
KNOWN = {"context": {"sentences": 2, "tokens": 40}}


@pytest.fixture(scope="module")
def tokenizers() -> Tokenizers:
    source = train_tokenizer(ENGLISH * 3, Plan("words", vocab_size=40))
    return Tokenizers(source, train_tokenizer(FRENCH * 3, Plan("words", vocab_size=40)), False)


FAMILIES = {
    "transformer": (transformer, {"num_layers": 2, "d_ff": 32, "num_heads": 4}),
    "learned positions": (
        transformer,
        {"num_layers": 1, "d_ff": 32, "num_heads": 2, "positions": "learned", "max_positions": 64},
    ),
    "rnn with input feeding": (rnn, {"num_layers": 1, "attention": "dot", "input_feeding": True}),
    "rnn without attention": (rnn, {"num_layers": 1, "attention": "none"}),
}


def translator(tokenizers: Tokenizers, family: str = "transformer", **search: Any) -> Translator:
    torch.manual_seed(4)
    module, sizes = FAMILIES[family]
    given = {"vocab_size": tokenizers.source.vocab_size, "target_vocab_size": tokenizers.target.vocab_size, "d_model": 16}
    model = module.describe(**given, **sizes).build().eval()
    for name, tensor in model.named_parameters():
        if "norm" not in name:
            tensor.data.normal_(0.0, 0.5)
    return Translator(model, tokenizers, Search(**{"num_beams": 3, "max_length": 12} | search), KNOWN)


PAIRS = list(zip(ENGLISH, FRENCH))
BEFORE = [PAIRS[:2], [], PAIRS[:1], PAIRS[1:2]]
TEXTS = [ENGLISH[2], ENGLISH[0], ENGLISH[2], ENGLISH[1]]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("search", [{}, {"num_beams": 1}, {"sample": True, "num_return": 2, "seed": 3}], ids=str)
def test_the_model_reads_what_stands_before_and_nothing_counts_it(tokenizers: Any, family: str, search: Any) -> None:
    """Log-probabilities of answers are those of one pass over everything; a batch changes none of them."""
    its = translator(tokenizers, family)
    found = its.translate(TEXTS, details=True, context=BEFORE, **search)
    start, end = its.marks()
    for text, pairs, one in zip(TEXTS, BEFORE, found):
        source = [n for s, _ in pairs for n in [*tokenizers.source.encode(s), tokenizers.source.bos]]
        target = [n for _, t in pairs for n in [*tokenizers.target.encode(t), start]]
        framed = [*source, *tokenizers.source.encode(text), tokenizers.source.eos]
        [wanted] = forced(its.model, [framed], [([*target, *one.ids], one.finished)], start, end)
        assert one.token_log_probs == pytest.approx(wanted.log_probs[len(target) :], abs=2e-4)
        assert one.log_prob == pytest.approx(sum(one.token_log_probs), abs=1e-3)
        assert one.score == pytest.approx(one.log_prob / len(one.token_log_probs), abs=1e-4)
        assert start not in one.ids
    if not search.get("sample"):
        alone = [its.translate([text], details=True, context=[pairs], **search)[0] for text, pairs in zip(TEXTS, BEFORE)]
        assert [one.ids for one in alone] == [one.ids for one in found]


def test_what_stands_before_makes_a_difference(tokenizers: Any) -> None:
    its = translator(tokenizers)
    logs = [its.translate([ENGLISH[2]], details=True, context=[pairs])[0].log_prob for pairs in ([], PAIRS[:1], PAIRS[:2])]
    assert len({round(log, 4) for log in logs}) == 3
    assert its.translate([ENGLISH[2]], details=True)[0].log_prob == pytest.approx(logs[0], abs=1e-5)


def test_ensembles_groups_and_coverage_read_it_too(tokenizers: Any) -> None:
    from regard.ensemble import Ensemble

    its = translator(tokenizers)
    both = Ensemble([its, its])
    for more in ({}, {"num_beams": 4, "num_beam_groups": 2}, {"coverage_penalty": 0.3}, {"mbr": "chrf", "candidates": 4}):
        assert both.translate(TEXTS, context=BEFORE, **more) == its.translate(TEXTS, context=BEFORE, **more)


def test_phrases_of_earlier_translations_do_not_count(tokenizers: Any) -> None:
    its = translator(tokenizers)
    [one] = its.translate([ENGLISH[2]], details=True, context=[PAIRS[:2]], require="chien", forbid="football")
    assert occurs("chien", one.text)
    assert not occurs("football", one.text)
    assert one.unkept == []


def test_what_is_told_of_a_translation_is_of_it_alone(tokenizers: Any) -> None:
    its = translator(tokenizers)
    [one] = its.translate([ENGLISH[0]], details=True, context=[PAIRS[1:]], confidence=True, keep="tags")
    count = len(ENGLISH[0].split())
    assert all(int(pair.split("-")[0]) < count for pair in (one.alignment or "").split())
    assert [word["text"] for word in one.words] == one.text.split()
    assert one.source == ENGLISH[0]
    assert one.explained is not None
    assert "too-short" not in one.flags


def test_ids_before_a_sentence(tokenizers: Any) -> None:
    source, target = tokenizers.source, tokenizers.target
    own = [source.encode(ENGLISH[2])]
    [found] = before_of([PAIRS[:2]], own, tokenizers, 2, Trained(2, 40))
    assert found.source == [*source.encode(ENGLISH[0]), 2, *source.encode(ENGLISH[1]), 2]
    assert found.target == [*target.encode(FRENCH[0]), 2, *target.encode(FRENCH[1]), 2]
    assert found.given(2) == [2, *found.target[:-1]]
    assert Before().given(2) == []
    [shorter] = before_of([PAIRS[:2]], own, tokenizers, 2, Trained(1, 40))
    assert shorter.source == [*source.encode(ENGLISH[1]), 2]
    room = len(own[0]) + 1 + len(shorter.source)
    assert before_of([PAIRS[:2]], own, tokenizers, 2, Trained(2, max(room, len(shorter.target) + len(own[0]) + 1))) == [
        shorter
    ]
    assert before_of([PAIRS[:2]], own, tokenizers, 2, Trained(2, 9)) == [Before()]


def test_mistakes(tokenizers: Any) -> None:
    its = translator(tokenizers)
    with pytest.raises(UserError, match="context has 1 entries for 2 texts"):
        its.translate(TEXTS[:2], context=[[]])
    with pytest.raises(UserError, match="context is 3; this model has learned with 2 at most"):
        its.translate(TEXTS, context=3)
    with pytest.raises(UserError, match="context is -1, should be"):
        its.translate(TEXTS, context=-1)
    with pytest.raises(UserError, match="context is '1', should be"):
        its.translate(TEXTS, context="1")
    its.meta = {}
    for context in (1, [[] for _ in TEXTS], Context(2)):
        with pytest.raises(UserError, match=r"has not learned to read sentences before \(data\.context"):
            its.translate(TEXTS, context=context)
    assert its.translate(TEXTS, context=0) == its.translate(TEXTS)
    its.meta = {"context": {"sentences": "many"}}
    with pytest.raises(UserError, match=r"regard\.json: context should say"):
        its.translate(TEXTS, context=1)
    marked = SimpleNamespace(source=SimpleNamespace(bos=None, eos=3), target=SimpleNamespace(pad=0))
    assert marks_between(marked, 2) == (3, 2)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="context needs marks"):
        marks_between(marked, 0)  # type: ignore[arg-type]


def test_no_shortlist_beside_it(tokenizers: Any) -> None:
    its = translator(tokenizers)
    its.shortlist = SimpleNamespace()  # type: ignore[assignment]
    with pytest.raises(UserError, match="context and a shortlist do not go together"):
        its.translate(TEXTS, context=1)


def test_a_number_a_context_and_none() -> None:
    assert thread_of(None, {}) is None
    assert thread_of([[]], {}) is None
    assert thread_of(0, {}) is None
    assert thread_of(2, KNOWN) == Context(2)
    kept = Context(1)
    assert thread_of(kept, KNOWN) is kept
    for name in "abc":
        kept.add(name, name.upper())
    assert kept.pairs == [("c", "C")]
    assert after_given("model", [], Search()) == after_given("model", [[], []], Search()) == "model"


class Asked:
    """Answers in capitals, and remembers what stood before."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], Any]] = []

    def __call__(self, texts: list[str], *, details: bool, context: Any = None, **options: Any) -> list[Translation]:
        assert details
        self.calls.append((list(texts), context))
        self.options = options
        return [Translation(text, text.upper(), 0.0, 0.0) for text in texts]


def test_documents_in_order_and_side_by_side() -> None:
    asked = Asked()
    found = in_order(asked, ["a", "b", "c", "", " ", "d", "e"], Context(1))
    assert [one.text for one in found] == ["A", "B", "C", "", " ", "D", "E"]
    assert asked.calls == [
        (["", " "], None),
        (["a", "d"], [[], []]),
        (["b", "e"], [[("a", "A")], [("d", "D")]]),
        (["c"], [[("b", "B")]]),
    ]
    assert in_order(asked, [], Context(1)) == []


def test_a_document_goes_on_from_call_to_call() -> None:
    asked, thread = Asked(), Context(2)
    in_order(asked, ["a", "b"], thread)
    in_order(asked, ["c"], thread)
    assert asked.calls[-1] == (["c"], [[("a", "A"), ("b", "B")]])
    in_order(asked, ["", "d"], thread)
    assert asked.calls[-1] == (["d"], [[]])
    in_order(asked, ["e", ""], thread)
    assert asked.calls[-1] == (["e"], [[("d", "D")]])
    in_order(asked, ["f"], thread)
    assert asked.calls[-1] == (["f"], [[]])


def test_options_of_single_texts_and_kept_parts() -> None:
    asked, heard = Asked(), []
    options = {"prefix": ["x", "y"], "require": [["p"], ["q"]], "forbid": ["z"], "keep": "tags", "num_beams": 2, "first": 7}
    in_order(asked, ["a <b>c</b>", "d"], Context(1), progress=lambda number, text: heard.append(number), **options)
    assert asked.calls[-1] == (["d"], [[("a c", "A C")]])
    told = {name: asked.options[name] for name in ("prefix", "require", "forbid", "num_beams", "first")}
    assert told == {"prefix": ["y"], "require": [["q"]], "forbid": ["z"], "num_beams": 2, "first": 8}
    asked.options["progress"](0, "…")
    assert heard == [1]


def test_a_translator_in_order_is_it_sentence_by_sentence(tokenizers: Any) -> None:
    its = translator(tokenizers)
    texts = [*ENGLISH, "", *ENGLISH[1:]]
    found = its.translate(texts, context=2)
    wanted, pairs = [], []
    for text in texts:
        said = its.translate([text], context=[pairs[-2:]])[0] if text else ""
        pairs = [*pairs, (text, said)] if text else []
        wanted.append(said)
    assert found == wanted
    assert list(its.stream(iter(texts), window=2, context=2)) == wanted
    assert [one.text for one in its.translate(texts, context=2, details=True)] == wanted
