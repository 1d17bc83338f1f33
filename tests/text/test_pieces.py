"""What ids add to a text, for pipelines of other programs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from regard.text.pieces import between_spaces, numbered, piece_bytes, steps, strips_a_space
from regard.text.tokenizer import Tokenizer


@pytest.mark.parametrize(
    ("kind", "known"), [("gpt2", True), ("roberta", True), ("llama", True), ("bert", False), ("t5", False)]
)
def test_pipelines_that_decode_id_by_id_are_known(kind: str, known: bool, foreign: Any) -> None:
    its = Tokenizer.open(foreign(kind))
    file = json.loads(its.backend.to_str())
    assert (piece_bytes(its.backend, file) is not None) == known
    assert strips_a_space(file) == (kind == "llama")


def test_s_tok_05_bytes_of_one_character_come_together(foreign: Any) -> None:
    its = Tokenizer.open(foreign("llama"))
    ids = [its.backend.token_to_id(f"<0x{value:02X}>") for value in "🙂".encode()]
    stream = its.stream()
    assert [stream.push(number) for number in ids] == ["", "", "", "🙂"]
    stream = its.stream()
    assert [*(stream.push(number) for number in ids[:2]), stream.end()] == ["", "", "\ufffd"]


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert", "t5"])
def test_a_stream_goes_on_after_other_ids(kind: str, foreign: Any) -> None:
    its = Tokenizer.open(foreign(kind))
    ids = its.encode("The quick brown fox jumps over")
    for cut in range(1, len(ids)):
        stream = its.stream(ids[:cut])
        rest = "".join(map(stream.push, ids[cut:])) + stream.end()
        assert its.decode(ids[:cut]) + rest == its.decode(ids)


def test_words_are_numbered() -> None:
    assert numbered([0, 0, 1, None, 1, 0]) == [0, 0, 1, 2, 3, 4]
    assert between_spaces("ab c", [(0, 1), (1, 2), (2, 4)]) == [0, 0, 1]
    assert steps(None, "decoders") == []
