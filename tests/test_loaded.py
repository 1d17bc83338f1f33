"""What all that is loaded shares: frames, cuts, batches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.errors import UserError
from regard.loaded import LONGEST, in_windows
from regard.loading import load

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def its(foreign: Any) -> Any:
    return load(foreign("bert", "BertForSequenceClassification", num_labels=3))


def test_frames_lose_the_end_of_the_longer_text_first(its: Any) -> None:
    assert its.limit == 64
    for first, second in ((10, None), (62, None), (63, None), (90, None), (30, 31), (31, 31), (5, 90), (90, 5), (50, 60)):
        ids = [list(range(5, 5 + n)) for n in (first, second or 0)]
        (framed, segments), over = its.frame(ids[0], None if second is None else ids[1])
        room = 62 if second is None else 61
        assert over == (first + (second or 0) > room)
        assert len(framed) == len(segments) == min(first + (second or 0), room) + 64 - room
        assert framed[:2] == [2, 5]
        assert framed[-1] == 3
        if second is not None:
            between = framed.index(3)
            kept = (between - 1, len(framed) - between - 2)
            assert kept == (first, second) if not over else abs(kept[0] - kept[1]) <= 1 or min(first, second) in kept
            assert segments == [0] * (between + 1) + [1] * (kept[1] + 1)


def test_segments_that_the_model_lacks_are_named(its: Any) -> None:
    with pytest.raises(UserError, match="puts a text into segment 2, the model has only 2"):
        its.read([([2, 5, 3], [0, 2, 2])], lambda answer, row, length: length)


def test_padding_and_batches_change_no_answer(its: Any) -> None:
    """Each text's answer is the one it has alone (1e-5), whatever stands beside it, and answers come in order."""
    texts = ["fox", "The quick brown fox jumps over the lazy dog!", "", "Hello world", "a dog a dog a dog a dog"] * 3
    framed = [its.frame(ids)[0] for ids in its.tokenizer.encode_batch(texts)]

    def take(answer: Any, row: int, length: int) -> tuple[int, torch.Tensor]:
        return length, answer.logits[row]

    alone = [its.read([one], take)[0] for one in framed]
    for batch_tokens in (1, 30, 2048):
        found = its.read(framed, take, batch_tokens)
        assert [length for length, _ in found] == [len(ids) for ids, _ in framed]
        for (_, one), (_, other) in zip(found, alone):
            assert (one - other).abs().max() < 1e-5


def test_nothing_to_read_is_refused(its: Any) -> None:
    with pytest.raises(UserError, match="text 2 is empty"):
        its.read([([5], [0]), ([], [])], lambda answer, row, length: None)


def test_windows_read_no_further_than_they_answer() -> None:
    read = []

    def endless() -> Any:
        for number in range(10**9):
            read.append(number)
            yield number

    found = in_windows(lambda chunk: [n * n for n in chunk], endless(), 4)
    assert [next(found) for _ in range(5)] == [0, 1, 4, 9, 16]
    assert len(read) == 8
    assert LONGEST == 1024
