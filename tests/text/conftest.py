"""A small text that has what tokenizers stumble over, and one tokenizer of each kind made from it."""

from __future__ import annotations

import pytest

from regard.text.tokenizer import Plan, Tokenizer, train_tokenizer

SENTENCES = [
    "A man in a blue shirt is standing on a ladder cleaning a window.",
    "Un homme en chemise bleue est debout sur une échelle et nettoie une fenêtre.",
    "Two young, white males are outside near many bushes.",
    "Deux jeunes hommes blancs sont dehors près de buissons.",
    "The man doesn't like </s> or <pad>, he likes <unk> and <0x41>.",
    "L'homme n'aime pas l'eau qu'il boit à 10 h 30.",
]
LINES = SENTENCES * 4
KINDS = ("unigram", "bpe", "words", "characters", "bytes")
LOSSLESS = ("unigram", "bpe", "bytes")


def plan(kind: str, **more) -> Plan:
    return Plan(kind=kind, vocab_size=420, **more)


@pytest.fixture(scope="session")
def made() -> dict[str, Tokenizer]:
    """A tokenizer of each kind with the extra symbol <2xx>, without normalisation."""
    return {kind: train_tokenizer(LINES, plan(kind, normalization="none"), ["<2xx>"]) for kind in KINDS}
