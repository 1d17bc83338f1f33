"""BPE-dropout: seeded, never saved, and only another division of the same text."""

from __future__ import annotations

import pytest

from regard.text.tokenizer import Plan, Tokenizer, train_tokenizer

LINES = ["many men like many things and the men are many, 日本 </s>"] * 10


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(LINES, Plan(kind="bpe", vocab_size=320, dropout=0.3), ["<2xx>"])


def test_equal_seeds_give_equal_ids_and_other_seeds_others(tokenizer: Tokenizer) -> None:
    first = tokenizer.encode_batch(LINES, sample=1)
    assert first == tokenizer.encode_batch(LINES, sample=1)
    assert first != tokenizer.encode_batch(LINES, sample=2)
    assert len({tuple(ids) for ids in first}) > 5


def test_every_division_is_the_same_text(tokenizer: Tokenizer) -> None:
    text = "<2xx> many <unk> men"
    for seed in range(20):
        (ids,) = tokenizer.encode_batch([text], sample=seed)
        assert tokenizer.decode(ids) == text
        assert ids[0] == tokenizer.vocab_size - 1
        assert min(ids) > 3


def test_without_a_seed_or_without_dropout_nothing_is_dropped(tokenizer: Tokenizer) -> None:
    plain = tokenizer.encode_batch(LINES)
    assert plain == [tokenizer.encode(line) for line in LINES]
    opened = train_tokenizer(LINES, Plan(kind="bpe", vocab_size=320))
    assert opened.encode_batch(LINES, sample=1) == [opened.encode(line) for line in LINES]


def test_next_to_no_dropout_is_the_library_s_division(tokenizer: Tokenizer) -> None:
    rare = Tokenizer(tokenizer.backend, dropout=1e-12)
    assert rare.encode_batch(LINES, sample=3) == tokenizer.encode_batch(LINES)


def test_more_dropout_gives_more_pieces(tokenizer: Tokenizer) -> None:
    lengths = []
    for dropout in (0.1, 0.5, 0.999):
        sampled = Tokenizer(tokenizer.backend, dropout).encode_batch(LINES * 5, sample=0)
        lengths.append(sum(map(len, sampled)))
    assert lengths == sorted(lengths)
    assert lengths[-1] > 0.95 * 5 * len(LINES) * len(LINES[0].encode())
