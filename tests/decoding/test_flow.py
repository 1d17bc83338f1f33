"""Rows that come and go write what each would write alone."""

from __future__ import annotations

import random

import pytest
import torch

from regard.decoding.continuation import Continuation
from regard.decoding.flow import Flow
from regard.decoding.options import Search
from regard.errors import UserError
from regard.models import gpt2, llama, mistral

END = 3
GREEDY = Search(num_beams=1, max_length=12)
SAMPLE = Search(sample=True, seed=5, max_length=12, temperature=1.3)
FUSSY = Search(
    num_beams=1, max_length=12, min_length=3, repetition_penalty=1.4, no_repeat_ngram_size=2, suppress_tokens=(7,)
)


@pytest.fixture(scope="module", params=["gpt2", "llama", "mistral"])
def model(request):
    sizes = {"vocab_size": 24, "num_layers": 2, "d_model": 16, "num_heads": 2}
    made = {
        "gpt2": lambda: gpt2.describe(**sizes, max_positions=64),
        "llama": lambda: llama.describe(**sizes, d_ff=32, num_kv_heads=1),
        "mistral": lambda: mistral.describe(**sizes, d_ff=32, num_kv_heads=1, window=6),
    }[request.param]()
    torch.manual_seed(3)
    built = made.build().eval().double()
    for name, tensor in built.named_parameters():
        if "norm" not in name:
            tensor.data.normal_(0.0, 0.5)
    return built


def alone(model, prompt, options, name, most):
    running = Continuation(model, [prompt], Search(**{**vars(options), "max_length": most}), [END], [name])
    return [(token, round(log, 9)) for ((_, token, log),) in running]


def coming_and_going(model, options, prompts, names, most, seed):
    """Every prompt's tokens; prompts are added at random moments."""
    draw, flow, found, left = random.Random(seed), Flow(model, options, [END]), {}, list(range(len(prompts)))
    row_of = {}
    while left or flow.running:
        while left and (flow.running == 0 or draw.random() < 0.4):
            chosen = [left.pop(0) for _ in range(min(len(left), draw.randint(1, 2)))]
            rows = flow.add([prompts[n] for n in chosen], [names[n] for n in chosen], [most[n] for n in chosen])
            row_of |= dict(zip(rows, chosen))
        for row, token, log in flow.step():
            found.setdefault(row_of[row], []).append((token, round(log, 9)))
        flow.leave()
    return found


@pytest.mark.parametrize("options", [GREEDY, SAMPLE, FUSSY], ids=["greedy", "sample", "constrained"])
def test_a_row_writes_what_it_would_write_alone(model, options):
    draw = random.Random(1)
    prompts = [[draw.randint(4, 23) for _ in range(draw.randint(1, 9))] for _ in range(9)]
    names = [(number, 0) for number in range(9)]
    most = [draw.randint(4, 12) for _ in prompts]
    found = coming_and_going(model, options, prompts, names, most, seed=2)
    for number, prompt in enumerate(prompts):
        assert found[number] == alone(model, prompt, options, names[number], most[number]), number


def test_a_closed_row_writes_no_more_and_the_others_go_on(model):
    flow = Flow(model, GREEDY, [])
    first, second = flow.add([[5, 6], [7, 8, 9]], [(0, 0), (1, 0)], [9, 9])
    flow.step()
    flow.close(first)
    flow.leave()
    assert [row for row, _, _ in flow.step()] == [second]
    third = flow.add([[4]], [(2, 0)], [9])[0]
    flow.close(third)
    flow.leave()
    assert flow.running == 1
    flow.close(second)
    flow.leave()
    assert flow.running == 0
    assert flow.step() == []


def test_the_cache_does_not_grow_with_those_who_left(model):
    """However many prompts pass through, the cache holds no more columns than the slack and the longest of those there."""
    flow, most = Flow(model, GREEDY, []), 0
    for n in range(120):
        flow.add([[4 + n % 20] * 3], [(n, 0)], [5])
        for _ in range(2):
            flow.step()
            flow.leave()
            most = max(most, flow.columns)
    assert most <= 64 + 3 + 5 + 2


def test_too_long_a_prompt_is_refused_before_it_joins():
    torch.manual_seed(0)
    made = gpt2.describe(vocab_size=24, num_layers=1, d_model=8, num_heads=2, max_positions=8).build().eval()
    flow = Flow(made, GREEDY, [END])
    flow.add([[5, 6]], [(0, 0)], [50])
    with pytest.raises(UserError, match="9 tokens, the model has positions for 8"):
        flow.add([[5] * 9], [(1, 0)], [5])
    written = 0
    while flow.running:
        written += len(flow.step())
        flow.leave()
    assert written <= 7
