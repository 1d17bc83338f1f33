"""The twin of a model and its search: when it answers, and when the slow one does. That both answer alike is a contract of
all architectures: `tests/contract/test_compiled.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("numba")

from regard.compiled import kernels
from regard.compiled import twin as compiled
from regard.compiled.twin import Compiled
from regard.decoding.generate import Job, Workers, run_job
from regard.decoding.options import Hypothesis, Search
from regard.decoding.shortlist import Shortlist
from regard.errors import UserError
from regard.inspection import tape

SOURCES = [[4, 5, 6, 2], [7, 2], [], [9, 4, 9, 4, 9, 4, 2], [8, 8, 2]] * 4


def ids(found: list[list[Hypothesis]]) -> list[list[int]]:
    return [one[0].ids for one in found]


@pytest.fixture
def model(build: Any) -> Any:
    its = build(placement="pre")
    its.compiled = Compiled.of(its)
    return its


def both(model: Any, job: Job, sources: Any = SOURCES, prefix: Any = None) -> tuple[Any, Any]:
    fast, twin = run_job(job, model, sources, prefix), model.compiled
    model.compiled = None
    slow = run_job(job, model, sources, prefix)
    model.compiled = twin
    return ids(fast), ids(slow)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many sentences each group had that compiled code answered."""
    seen: list[int] = []
    search_group = compiled.search_group

    def counted(half: Any, head: Any, group: Any, *rest: Any) -> bool:
        seen.append(len(group.lengths))
        return search_group(half, head, group, *rest)

    monkeypatch.setattr(compiled, "search_group", counted)
    return seen


def test_groups_and_batches_do_not_matter(model: Any, calls: list[int]) -> None:
    fast, slow = both(model, Job(Search(num_beams=5), 1, 2))
    assert fast == slow
    assert sum(calls) == 16, "empty sources are not asked for"
    assert max(calls) == 6
    assert ids(run_job(Job(Search(num_beams=5), 1, 2, batch_tokens=8), model, SOURCES)) == fast


def test_threads_answer_as_one(model: Any, calls: list[int]) -> None:
    job = Job(Search(num_beams=2), 1, 2, batch_tokens=8)
    with Workers(model, 3) as workers:
        workers.wait()
        assert ids(run_job(job, model, SOURCES, workers=workers)) == ids(run_job(job, model, SOURCES))
    assert sum(calls) == 32


@pytest.mark.parametrize(
    "options", [{"sample": True}, {"repetition_penalty": 1.2}, {"no_repeat_ngram_size": 2}, {"coverage_penalty": 0.1}]
)
def test_what_it_does_not_know_the_slow_twin_does(model: Any, calls: list[int], options: dict[str, Any]) -> None:
    fast, slow = both(model, Job(Search(num_beams=2, **options), 1, 2))
    assert fast == slow
    assert not calls


def test_prefixes_and_listeners_too(model: Any, calls: list[int]) -> None:
    fast, slow = both(model, Job(Search(), 1, 2), SOURCES[:2], [[5], []])
    assert fast == slow
    assert not calls
    heard: list[int] = []
    run_job(Job(Search(num_beams=1), 1, 2, tell=lambda number, ids: heard.extend(ids)), model, SOURCES)
    assert heard
    assert not calls


def test_whoever_looks_on_sees_everything(model: Any, calls: list[int]) -> None:
    with tape.record(model) as seen:
        run_job(Job(Search(num_beams=1), 1, 2), model, SOURCES[:1])
    assert seen.names
    assert not calls


def test_changed_weights_are_read_anew(model: Any) -> None:
    before, _ = both(model, Job(Search(), 1, 2))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(-0.7)
    after, slow = both(model, Job(Search(), 1, 2))
    assert before != after
    assert after == slow


def test_updated_weights_are_read_anew(model: Any) -> None:
    """By an optimiser that does not count its updates in the version of a weight."""
    before, _ = both(model, Job(Search(), 1, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3, fused=True)
    for weight in model.parameters():
        weight.grad = torch.randn_like(weight)
    optimizer.step()
    after, slow = both(model, Job(Search(), 1, 2))
    assert before != after
    assert after == slow


def test_a_shortlist_narrows_both_alike(model: Any, calls: list[int]) -> None:
    near = torch.arange(23)[:, None].repeat(1, 2).int()
    job = Job(Search(num_beams=3), 1, 2, shortlist=Shortlist(torch.tensor([3, 4, 5, 11]).int(), near))
    fast, slow = both(model, job)
    assert calls
    assert fast == slow
    assert {token for one in fast for token in one} <= {1, 2, 3, 4, 5, 6, 7, 8, 9, 11}


def test_longer_prompts_of_a_language_model(build: Any) -> None:
    model = build("llama", num_kv_heads=2)
    model.compiled = Compiled.of(model)
    fast, slow = both(model, Job(Search(num_beams=3, max_length=40), 1, 2), [[5, 6, 7] * 9, [4, 9, 8] * 9])
    assert fast == slow
    assert max(map(len, fast)) > 17, "more than the caches have room for at first"


def test_broken_weights_are_an_error(model: Any) -> None:
    with torch.no_grad():
        model.head.project.weight[3] = torch.nan
    with pytest.raises(UserError, match="answers with NaN"):
        run_job(Job(Search(), 1, 2), model, SOURCES[:1])


def test_ids_that_the_model_lacks(model: Any) -> None:
    with pytest.raises(UserError, match="names id 99"):
        run_job(Job(Search(suppress_tokens=(99,)), 1, 2), model, SOURCES[:1])


@pytest.mark.parametrize("name", ["t5", "rnn", "bert"])
def test_other_models_are_refused(name: str) -> None:
    from regard import models

    sizes = {"vocab_size": 23, "num_layers": 1, "d_model": 16}
    its = models.find(name).describe(**sizes, **({} if name == "rnn" else {"d_ff": 32, "num_heads": 4})).build()
    with pytest.raises(UserError, match=r"engine compiled: serves Transformers .* use the engine regard"):
        Compiled.of(its)


def test_who_compiles_for_the_first_time_is_told(
    build: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "compiled_0123").mkdir()  # numba's, empty before the first compilation
    monkeypatch.setattr(compiled, "PLACE", str(tmp_path))
    Compiled.of(build())
    assert "compiling for this machine: about a minute, once" in caplog.text
    caplog.clear()
    monkeypatch.setattr(compiled, "PLACE", kernels.PLACE)
    Compiled.of(build())
    assert not caplog.text


@pytest.mark.parametrize("number", [-1, 23, 10**8])
def test_ids_that_have_no_vector_reach_no_memory(model: Any, build: Any, number: int) -> None:
    twin = model.compiled
    with pytest.raises(IndexError, match="vectors of 23"):
        twin.answers([[4, number]], Search(), 1, 2)
    with pytest.raises(IndexError, match="vectors of 23"):
        twin.answers([[4]], Search(), number, 2)
    with pytest.raises(IndexError, match="vectors of 23"):
        Compiled.of(build("gpt2")).steps([[4], [number]], 9)
