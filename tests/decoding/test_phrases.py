"""The automaton over tokens, against the text."""

from __future__ import annotations

import pickle
import random

import pytest

from regard.decoding.phrases import Rules
from regard.text.surfaces import Lexicon, occurs
from regard.text.tokenizer import Plan, train_tokenizer

LINES = ["Deux hommes jouent au football .", "l'homme (le chat) dort.", "chats et chatons, hommes-chats", "足球队"] * 9


@pytest.fixture(scope="module", params=[("bpe", 330), ("unigram", 340), ("bytes", 260)], ids=str)
def lexicon(request):
    return Lexicon(train_tokenizer(LINES, Plan(request.param[0], vocab_size=request.param[1])))


def walked(rules, ids):
    stages = [rules.start()]
    for token in ids:
        stages.append(stages[-1].after(token))
    return stages


def test_random_tokens_against_the_text(lexicon) -> None:
    """2,000 answers of random tokens, many of them out of the phrases: the end of each says what the text says."""
    phrases, tokenizer = ["chat", "hommes", "le chat", "chat.", "足球"], lexicon.tokenizer
    rules = Rules(lexicon, [["chat", "le chat"], ["hommes"], ["chat."]], ["足球", "au"])
    chance = random.Random(1)
    ids = [n for phrase in (*phrases, "chats", "(chat)", " .", "au chat", "hommes") for n in tokenizer.encode(phrase)]
    for _ in range(2000):
        answer = [chance.choice(ids) for _ in range(chance.randint(1, 9))]
        text = lexicon.spelled(answer).decode("utf-8", "replace")
        if "\ufffd" in text:
            continue  # half a character is no text at all
        stages = walked(rules, answer)
        unmet = [not any(occurs(p, text) for p in group) for group in (["chat", "le chat"], ["hommes"], ["chat."])]
        assert (stages[-1].missing == 0) == (not any(unmet)), text
        broken = any(stage.broken for stage in stages) or stages[-1].held
        assert broken == (occurs("足球", text) or occurs("au", text)), text


def test_advance_leads_to_the_end_in_as_many_tokens_as_are_missing(lexicon) -> None:
    rules = Rules(lexicon, [["le chat"], ["hommes jouent", "homme"]])
    stage, ids = rules.start(), []
    start = stage.missing
    while stage.missing:
        token = stage.advance[0]
        before, stage = stage.missing, stage.after(token)
        assert stage.missing < before
        ids.append(token)
    assert stage.ends
    assert len(ids) <= start
    text = lexicon.spelled(ids).decode()
    assert occurs("le chat", text)
    assert occurs("hommes jouent", text) or occurs("homme", text)


def test_forbidden_leaves_longer_words_alone(lexicon) -> None:
    rules, tokenizer = Rules(lexicon, (), ["chat"]), lexicon.tokenizer
    stages = walked(rules, tokenizer.encode("les chats et chatons"))
    assert not any(stage.broken for stage in stages)
    stage = walked(rules, tokenizer.encode("le chat"))[-1]
    assert stage.held
    assert not stage.ends
    before = walked(rules, tokenizer.encode("le chat")[:-1])[-1]
    assert tokenizer.encode("le chat")[-1] in before.forbidden("last")
    assert tokenizer.encode("le chat")[-1] not in before.forbidden("usual")


def test_what_cannot_be_spelled_is_hopeless() -> None:
    words = Lexicon(train_tokenizer(LINES, Plan("words", vocab_size=60)))
    rules = Rules(words, [["Xyzzy"], ["Xyzzy", "hommes"]])
    assert rules.hopeless == [("Xyzzy",)]
    assert len(rules.groups) == 1
    assert rules.start().missing == 1


def test_an_opening_is_spelled_in_any_way(lexicon) -> None:
    rules, tokenizer = Rules(lexicon, opening=lexicon.spelled(lexicon.tokenizer.encode("le ch"))), lexicon.tokenizer
    stage = rules.start()
    assert not stage.ends
    for token in tokenizer.encode("le chatons"):
        if stage.opening:
            assert token in stage.opening
        stage = stage.after(token)
    assert stage.ends
    assert stage.opening == []


def test_rules_travel_to_worker_processes() -> None:
    lexicon = Lexicon(train_tokenizer(LINES, Plan("bytes", vocab_size=260)))
    rules = Rules(lexicon, [["le chat"]])
    assert rules.start().advance
    again = pickle.loads(pickle.dumps(rules))
    assert again.start().advance == rules.start().advance


def test_ids_that_have_nothing_to_do_with_phrases_are_passed_over_rightly(lexicon) -> None:
    """What is passed over is what the long way finds too."""
    groups, forbid = [["chat", "le chat"], ["chat."]], ["au", "l'", "球"]
    quick, slow = Rules(lexicon, groups, forbid), Rules(lexicon, groups, forbid)
    slow.touching = frozenset(range(len(lexicon.texts)))
    slow._near = [slow.touching] * len(slow.patterns)
    assert len(quick.touching) < len(slow.touching)
    chance = random.Random(2)
    for _ in range(300):
        stages = [quick.start(), slow.start()]
        for _ in range(chance.randint(1, 8)):
            token = chance.randrange(len(lexicon.texts))
            stages = [stage.after(token) for stage in stages]
            assert stages[0].seen == stages[1].seen
            assert stages[0].broken == stages[1].broken


def test_a_pattern_is_made_once(lexicon) -> None:
    first, second = Rules(lexicon, [["chat"]], ["au"]), Rules(lexicon, [["au"]], ["chat"])
    assert first.patterns[0] is second.patterns[1]
