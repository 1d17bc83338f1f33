"""Guessing ahead changes no token, saves passes, and says where it cannot be done."""

from __future__ import annotations

import pytest
import torch

from regard import models
from regard.architecture import Description
from regard.decoding.continuation import Continuation
from regard.decoding.options import Search
from regard.decoding.speculative import Draft, Lookup, Speculation
from regard.errors import UserError
from regard.layers.embeddings import Tokens
from regard.layers.heads import NextToken
from regard.layers.recurrent_decoder import RecurrentDecoder

SIZE = {"vocab_size": 24, "num_layers": 2, "d_model": 16, "d_ff": 32, "num_heads": 2}


def built(family: str = "llama", seed: int = 1, **more):
    torch.manual_seed(seed)
    model = models.find(family).describe(**SIZE | more).build().eval()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.normal_(0.0, 0.5)
    return model


class Wrong:
    """Guesses what is never right twice in a row."""

    def propose(self, ids, count):
        return [(ids[-1] + n) % 24 for n in range(count)]


def ids_of(running) -> list[int]:
    return [token for ((_, token, _),) in running]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["lookup", "draft", "same", "wrong"])
def test_the_text_is_that_of_greedy_search(seed, kind) -> None:
    model, prompt = built(seed=seed), [5, 6, 7, 5, 6, 7, 5]
    guess = {
        "lookup": Lookup(2, 4),
        "draft": Draft(built(seed=seed + 10), 3),
        "same": Draft(model, 4),
        "wrong": Wrong(),
    }[kind]
    options = Search(
        num_beams=1, max_length=20, no_repeat_ngram_size=3 if seed == 3 else 0, min_length=0 if kind == "same" else 5
    )
    plain = [step[0] for step in Continuation(model, [prompt], options, [3])]
    running = Speculation(model, prompt, options, [3], guess)
    found = [step[0] for step in running]
    assert [token for _, token, _ in found] == [token for _, token, _ in plain]
    assert [log for *_, log in found] == pytest.approx([log for *_, log in plain], abs=1e-4)
    if kind == "same" and not options.no_repeat_ngram_size:
        assert running.passes <= len(found) // 4 + 2
    assert running.passes <= len(found)


def test_lookup_finds_what_followed_the_longest_likeness() -> None:
    assert Lookup(3, 2).propose([1, 2, 3, 4, 9, 2, 3, 8, 1, 2, 3], 5) == [4, 9]
    assert Lookup(3, 9).propose([1, 2, 1, 2], 1) == [1]
    assert Lookup().propose([1, 2, 3], 5) == []
    assert Lookup().propose([], 5) == []
    with pytest.raises(UserError, match="at least one token"):
        Lookup(0)


def test_whoever_reads_along_may_end_it() -> None:
    running = Speculation(built(), [5, 6, 5], Search(num_beams=1, max_length=20), [3], Lookup())
    steps = iter(running)
    next(steps)
    running.close(0)
    assert list(steps) == []


def test_the_end_of_the_models_positions_is_kept() -> None:
    model = built("gpt2", max_positions=12)
    found = ids_of(Speculation(model, [5, 6, 7], Search(num_beams=1, max_length=50), [], Draft(model, 5)))
    assert len(found) == 10
    with pytest.raises(UserError, match="13 tokens, the model has positions for 12"):
        Speculation(model, [5] * 13, Search(num_beams=1), [], Lookup())


def test_what_cannot_be_done_is_said() -> None:
    with pytest.raises(UserError, match="greedy"):
        Speculation(built(), [5], Search(num_beams=4), [3], Lookup())
    torch.manual_seed(0)
    recurrent = Description(decoder=RecurrentDecoder(8, Tokens(24)), head=NextToken(24)).build().eval()
    with pytest.raises(UserError, match="cannot forget"):
        list(Speculation(recurrent, [5, 6], Search(num_beams=1, max_length=9), [], Wrong()))
