"""Needs looked up in tables, against the automaton that reads each token."""

from __future__ import annotations

import random

import pytest
import torch

from regard.decoding.needs import TOLD, Needs
from regard.decoding.phrases import Rules
from regard.text.surfaces import Lexicon
from regard.text.tokenizer import Plan, train_tokenizer

LINES = ["Deux hommes jouent au football .", "l'homme (le chat) dort.", "chats et chatons, hommes-chats", "足球队"] * 9


@pytest.mark.parametrize(("kind", "size"), [("bpe", 330), ("unigram", 340), ("bytes", 260)])
def test_needs_in_tables_are_those_of_the_stages(kind, size) -> None:
    """All ids after random beginnings, many of them out of the phrases."""
    lexicon, chance = Lexicon(train_tokenizer(LINES, Plan(kind, vocab_size=size))), random.Random(1)
    words = ["chat", "hommes", "le chat", "chats", "(chat)", " .", "au chat", "l'", "足球"]
    ids = [n for phrase in words for n in lexicon.tokenizer.encode(phrase)]
    rules = [
        Rules(lexicon, [["chat", "le chat"], ["chat."]], ["au", "l'", "球"]),
        Rules(lexicon, [["hommes jouent"]], ["chat"], b" le"),
        Rules(lexicon),
    ]
    slow = [Rules(lexicon, [["chat", "le chat"], ["chat."]], ["au", "l'", "球"]), *rules[1:]]
    slow[0].touching = frozenset(range(len(lexicon.texts)))
    eos, vocab = 3, len(lexicon.texts) + 2
    needs = Needs(rules, eos, None)
    every = torch.arange(vocab)[None]
    for turn in range(120):
        number = turn % 3
        quick, exact = rules[number].start(), slow[number].start()
        for token in (chance.choice(ids) for _ in range(chance.randint(0, 6))):
            quick, exact = quick.after(token), exact.after(token)
        stage = needs.numbers([quick])[:, None].expand_as(every)
        one = stage[0, :1]
        assert [int(needs.told(one, name)) for name in TOLD] == [int(value(quick)) for value in TOLD.values()]
        last = torch.tensor([True, not lexicon.inside])
        at, forbidden = needs.forbidden(one.expand(2), last)
        assert sorted(forbidden[at == 0].tolist()) == sorted(quick.forbidden("last"))
        assert sorted(forbidden[at == 1].tolist()) == sorted(quick.forbidden("usual"))
        found = needs.of(stage, torch.full_like(every, number), every, torch.ones_like(every, dtype=torch.bool))[0].tolist()
        for token in range(vocab):
            after = exact.after(token)
            wanted = after.missing + after.held if token != eos else max(exact.missing, not exact.ends)
            assert found[token] == wanted, (quick.seen, token)
