"""Compiled code answers as the slow twin does, for every architecture that it serves, and refuses the others in words."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("numba")

from regard.compiled.twin import Compiled
from regard.decoding.generate import Job, run_job
from regard.decoding.options import Search
from regard.errors import UserError

SERVED = {"transformer", "bart", "gpt2", "llama"}
SEARCHES = [
    Search(num_beams=1),
    Search(num_beams=3, num_return=3),
    Search(num_beams=4, num_return=2, stopping="exhaustive", length_penalty=1.5, min_length=3, suppress_tokens=(5, 7)),
    Search(num_beams=2, stopping="first", length_penalty=0.0, first_token=6, max_length=7),
    Search(num_beams=2, length_form="gnmt", length_penalty=0.6, max_length=1),
]


def test_answers_are_those_of_the_slow_twin(family: Any) -> None:
    model = family.make(torch.float32)
    if family.name not in SERVED:
        with pytest.raises(UserError, match="use the engine regard"):
            Compiled.of(model)
        return
    twin = Compiled.of(model)
    generator = torch.Generator().manual_seed(3)
    lengths = [5, 1, 9, 4, 4, 7] if model.encoder is not None else [4] * 6
    size = (model.encoder or model.decoder).embed.tokens.num_embeddings
    sources = [torch.randint(3, size, (n,), generator=generator).tolist() for n in lengths]
    for options in SEARCHES:
        slow = run_job(Job(options, 1, 2), model, sources)
        model.compiled = twin
        fast = run_job(Job(options, 1, 2), model, sources)
        model.compiled = None
        for one, other in zip(slow, fast, strict=True):
            assert [h.ids for h in one] == [h.ids for h in other]
            assert [h.finished for h in one] == [h.finished for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], rel=1e-6, abs=1e-5)
            assert [h.log_prob for h in one] == pytest.approx([h.log_prob for h in other], rel=1e-6, abs=1e-5)
            for a, b in zip(one, other, strict=True):
                assert a.token_log_probs == pytest.approx(b.token_log_probs, rel=1e-6, abs=1e-5)
