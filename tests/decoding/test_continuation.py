"""Going on with prompts step by step: the same as the search does, and no further than is wanted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from regard.decoding.continuation import Continuation
from regard.decoding.options import Search
from regard.decoding.search import search
from regard.errors import UserError
from regard.layout import Layout
from regard.models import gpt2

PROMPTS = [[5, 6, 7], [8], [9, 4, 4, 9, 12]]


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    made = gpt2.describe(vocab_size=20, num_layers=2, d_model=16, num_heads=2, max_positions=24).build().eval()
    for tensor in made.parameters():
        if tensor.dim() > 1:
            torch.nn.init.normal_(tensor, 0.0, 0.4)
    return made


def written(running: Continuation) -> dict[int, list[int]]:
    rows: dict[int, list[int]] = {row: [] for row in range(len(running.counts))}
    for step in running:
        for row, token, log_prob in step:
            assert log_prob <= 1e-6
            rows[row].append(token)
    return rows


@pytest.mark.parametrize("options", [Search(num_beams=1, max_length=12), Search(sample=True, seed=4, max_length=12)])
def test_equal_to_search(model: Any, options: Search) -> None:
    rows = written(Continuation(model, PROMPTS, options, [3]))
    for row, prompt in enumerate(PROMPTS):
        layout = Layout.unpadded(len(prompt))
        ((want,),) = search(model, torch.tensor([prompt]), layout, options, 0, 3, numbers=[row])
        assert rows[row] == [*want.ids, *([3] if want.finished else [])]
        assert written(Continuation(model, [prompt], options, [3], [(row, 0)]))[0] == rows[row]


def test_ends_limits_and_bans(model: Any) -> None:
    whole = written(Continuation(model, PROMPTS, Search(max_length=12), []))
    assert [len(ids) for ids in whole.values()] == [12, 12, 12]
    ends = [whole[0][4], whole[1][2]]
    for row, ids in written(Continuation(model, PROMPTS, Search(max_length=12), ends)).items():
        first = min((whole[row].index(end) for end in ends if end in whole[row]), default=11)
        assert ids == whole[row][: first + 1]
    for ids in written(Continuation(model, PROMPTS, Search(max_length=12, min_length=6), ends)).values():
        assert len(ids) > 6
        assert set(ids[:6]).isdisjoint(ends)
    banned = tuple(set(whole[0]))
    assert set(written(Continuation(model, PROMPTS, Search(max_length=5, suppress_tokens=banned), []))[0]).isdisjoint(banned)
    full = written(Continuation(model, PROMPTS, Search(max_length=99), []))
    assert [len(ids) for ids in full.values()] == [22, 24, 20]
    with pytest.raises(UserError, match="prompt 2 has 30 tokens, the model has positions for 24"):
        Continuation(model, [[5], [5] * 30], Search(), [])


def test_a_closed_row_writes_no_more(model: Any) -> None:
    running = Continuation(model, PROMPTS, Search(max_length=12), [])
    count = {0: 0, 1: 0, 2: 0}
    for step in running:
        for row, _, _ in step:
            count[row] += 1
            if count[row] == 3 * (row + 1):
                running.close(row)
    assert count == {0: 3, 1: 6, 2: 9}
