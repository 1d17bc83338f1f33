"""Required and forbidden phrases against exhaustive search, and hundreds of answers that keep their promises."""

from __future__ import annotations

import itertools
import math
import random
from functools import cache
from types import SimpleNamespace

import pytest
import torch

from regard.decoding import Search, generate
from regard.decoding.banks import LACKING, Demand, Tracker
from regard.decoding.generate import Workers, translate_ids
from regard.decoding.phrases import Rules
from regard.models import rnn, transformer
from regard.text.surfaces import Lexicon, occurs

BOS, EOS = 2, 3
TEXTS = ["", "", "", "", " a", " b", "a", "b", " ab", "."]


class Pieces:
    """A tokenizer of nine pieces; it takes the longest that fits."""

    pad, unk, bos, eos, mask = 0, 1, BOS, EOS, None
    vocab_size = len(TEXTS)
    _pieces = tuple(text.encode() for text in TEXTS)

    def normalize(self, text):
        return text

    def encode(self, text):
        text, ids = " " + text.lstrip(" "), []
        while text:
            size = next((n for n in range(len(text), 0, -1) if text[:n] in TEXTS), 0)
            ids.append(TEXTS.index(text[:size]) if size else 1)
            text = text[max(size, 1) :]
        return ids

    def decode(self, ids):
        return "".join(TEXTS[number] for number in ids).removeprefix(" ")


LEXICON = Lexicon(Pieces())


def demand(groups=(), forbid=(), begin=()):
    return Demand(begin, Rules(LEXICON, groups, forbid))


def random_table(seed, most=100):
    generator = torch.Generator().manual_seed(seed)

    @cache
    def row(source, read):
        logits = torch.randn(len(TEXTS), generator=generator, dtype=torch.float64) * 1.5
        logits[:3] = -math.inf
        logits[EOS] = logits[EOS:].logsumexp(0) - 1  # so that no end mark is likelier than all else
        return dict(enumerate(logits.softmax(0).tolist())) if len(read) < most else {EOS: 1.0}

    return row


def kept(text, groups, forbid):
    return all(any(occurs(p, text) for p in group) for group in groups) and not any(occurs(p, text) for p in forbid)


CASES = [
    ([["ab"]], []),
    ([["a b"]], []),
    ([["a"], ["b"]], []),
    ([["ab", "ba"]], ["b"]),
    ([], ["a"]),
    ([["b."]], ["ab", "aa"]),
    ([], ["a", "b", "ab."]),
]


@pytest.mark.parametrize(("groups", "forbid"), CASES)
def test_wide_beams_equal_exhaustive_search(table, groups, forbid) -> None:
    rule = random_table(len(groups) + 7 * len(forbid), 3)
    model, every = table(rule, len(TEXTS)), []
    for length in range(1, 5):
        for ids in itertools.product(range(4, 10), repeat=length - 1):
            if kept(Pieces().decode(ids), groups, forbid):
                p = sum(math.log(rule((5,), ids[:t])[token]) for t, token in enumerate((*ids, EOS)))
                every.append((p / length, (*ids, EOS)))
    every.sort(reverse=True)
    assert len(every) > 5
    options = Search(num_beams=300, num_return=300, max_length=9, stopping="exhaustive")
    found = model.find([[5]], options, prefix=[demand(groups, forbid)])[0]
    seen = [(h.score, (*h.ids, *[EOS] * h.finished)) for h in found]
    assert [ids for _, ids in seen] == [ids for _, ids in every]
    assert [score for score, _ in seen] == pytest.approx([score for score, _ in every], abs=1e-10)


@pytest.mark.parametrize("how", [{}, {"num_beams": 1}, {"num_beams": 2}, {"sample": True, "num_return": 2}])
@pytest.mark.parametrize("encoder", [True, False])
def test_hundreds_of_promises_are_kept(table, how, encoder) -> None:
    chance, number = random.Random(3), 40
    model = table(random_table(1), len(TEXTS), encoder=encoder)
    words = ["a", "b", "ab", "ba", "bb", "aab", "a b", "ab ab", "b.", "aa"]
    wanted = []
    for _ in range(number):
        groups = [chance.sample(words, chance.choice([1, 1, 2])) for _ in range(chance.choice([0, 1, 2]))]
        banned = [w for w in words if not any(occurs(w, p) for group in groups for p in group)]
        wanted.append((groups, chance.sample(banned, min(len(banned), chance.choice([0, 1, 2])))))
    sources = [[4 + n % 6, 5] for n in range(number)]
    found = model.find(sources, Search(**how, max_length=25), prefix=[demand(*one) for one in wanted])
    for (groups, forbid), answers in zip(wanted, found, strict=True):
        for answer in answers:
            assert kept(Pieces().decode(answer.ids), groups, forbid), (groups, forbid, Pieces().decode(answer.ids))


def tiny(family):
    torch.manual_seed(5)
    shape = {"num_layers": 1, "d_model": 16, "d_ff": 32, "num_heads": 2, "tied": "no"} if family is transformer else {}
    model = family.describe(vocab_size=len(TEXTS), **(shape or {"d_model": 16})).build().double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return model


@pytest.mark.parametrize("family", [transformer, rnn])
def test_a_sentence_without_rules_is_not_touched_by_those_beside_it(family) -> None:
    model, options = tiny(family), Search(num_beams=4, max_length=12, num_return=4, suppress_tokens=(0, 1, 2))
    sources = [[4 + (i * 7 + j) % 6 for j in range(1 + i % 5)] + [3] for i in range(30)]
    plain = translate_ids(model, sources, options, BOS, EOS)
    wanted = [demand([["ab"], ["b b"]], ["a"]) if n % 3 == 0 else demand() for n in range(30)]
    mixed = translate_ids(model, sources, options, BOS, EOS, prefix=wanted)
    for n, (one, other) in enumerate(zip(plain, mixed, strict=True)):
        if n % 3:
            assert [h.ids for h in one] == [h.ids for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-12)
        else:
            assert all(kept(Pieces().decode(h.ids), [["ab"], ["b b"]], ["a"]) for h in other)
    for number in (0, 3, 9):
        alone = translate_ids(model, [sources[number]], options, BOS, EOS, prefix=[wanted[number]])[0]
        assert [h.ids for h in alone] == [h.ids for h in mixed[number]]


def test_the_beam_keeps_its_width(table) -> None:
    model = table(random_table(2), len(TEXTS))
    model.find([[5], [6]], Search(num_beams=4, max_length=12), prefix=[demand([["ab ab"], ["bb"]])] * 2)
    assert max(model.rows_seen) == 8


def test_a_beginning_stays_and_counts(table) -> None:
    model = table(random_table(2), len(TEXTS))
    for beams in (1, 4):
        found = model.find([[5]], Search(num_beams=beams, max_length=12), prefix=[demand([["ab"]], ["bb"], [5, 8])])[0]
        assert found[0].ids[:2] == [5, 8]
        assert kept(Pieces().decode(found[0].ids), [["ab"]], ["bb"])


def test_what_does_not_fit_the_limit_is_begun_and_not_kept(table) -> None:
    model = table(random_table(2), len(TEXTS))
    found = model.find([[5]], Search(num_beams=3, max_length=2), prefix=[demand([["aa aa aa"]])])[0]
    assert found
    assert not found[0].finished


def test_what_hypotheses_lack_has_a_price() -> None:
    tracker = Tracker([Rules(LEXICON, [["a"], ["b."]]), None], [9, 9], EOS, Search(num_beams=2))
    a, b, dot = (TEXTS.index(text) for text in (" a", " b", "."))
    first = tracker.price(torch.tensor([[0, 0], [1, 1]]), torch.tensor([[a, b], [a, b]]))
    assert first.tolist() == [[2 * LACKING, 2 * LACKING], [0, 0]]  # "b." is two tokens, "a" may still become "ab"
    tracker.wrote(torch.tensor([b, b]))
    assert tracker.price(torch.tensor([[0], [1]]), torch.tensor([[dot], [dot]])).tolist() == [[LACKING], [0]]


def test_demands_and_beginnings_side_by_side() -> None:
    rules = Rules(LEXICON, [["a"]])
    assert Demand.divided(None) == (None, None)
    assert Demand.divided([[4], Demand()]) == ([[4], ()], None)
    assert Demand.divided([[4], Demand((), rules)]) == ([[4], ()], [None, rules])
    assert SimpleNamespace(it=bool(Demand((), Rules(LEXICON)))).it is False


def test_batches_with_phrases_take_turns_in_two_threads(monkeypatch) -> None:
    """The same answers as one batch after the other: rules, made once, are shared by sentences of several batches, and what
    one search sees of attention is its own."""
    torch.manual_seed(0)
    described = transformer.describe(vocab_size=len(TEXTS), num_layers=2, d_model=16, d_ff=32, num_heads=2)
    model = described.build().double().eval()
    shared = [Rules(LEXICON, [["ab", "ba b"], ["bb"]], ["aab"]), Rules(LEXICON, (), ["a", "b."])]
    wanted = [Demand((), shared[n % 2]) for n in range(24)]
    sources = [[4 + (n * step) % 6 for step in range(1, 2 + n % 7)] + [EOS] for n in range(24)]
    made = []

    class Noted(Workers):
        def __init__(self, *given, **more) -> None:
            made.append(more)
            super().__init__(*given, **more)

    monkeypatch.setattr(generate, "Workers", Noted)
    before = torch.get_num_threads()
    try:
        for options in (Search(num_beams=4, max_length=14), Search(num_beams=3, max_length=9, coverage_penalty=0.3)):
            found = []
            for threads in (1, 2):
                torch.set_num_threads(threads)
                found.append(translate_ids(model, sources, options, BOS, EOS, prefix=wanted, batch_tokens=8))
                assert torch.get_num_threads() == threads
            for one, other in zip(*found, strict=True):
                assert [h.ids for h in one] == [h.ids for h in other]
                assert [h.score for h in one] == pytest.approx([h.score for h in other])
    finally:
        torch.set_num_threads(before)
    assert made == [{"inside": True}] * 2
