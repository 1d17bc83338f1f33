"""Shortlists: learned from pairs, the same answers where they hold what is needed, kept in the model's folder."""

from __future__ import annotations

import pytest
import torch

from regard.decoding import Search
from regard.decoding.banks import Demand
from regard.decoding.generate import Job, run_job
from regard.decoding.shortlist import FILE, Shortened, Shortening, Shortlist
from regard.errors import UserError
from regard.layers.int8 import quantize
from regard.models import transformer

BOS, EOS, SIZE = 2, 3, 40


@pytest.fixture
def model():
    torch.manual_seed(3)
    model = transformer.describe(vocab_size=SIZE, num_layers=1, d_model=16, d_ff=32, num_heads=2).build().eval()
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.normal_(0.0, 0.4)
    return model


@pytest.fixture
def everything() -> Shortlist:
    """A list that holds all target tokens, some by themselves and some beside a source token."""
    near = torch.full((SIZE, 30), -1, dtype=torch.int32)
    near[:, :20] = torch.arange(20, 40)
    return Shortlist(torch.arange(20, dtype=torch.int32), near)


def test_translations_are_learned() -> None:
    pairs = [([10, 11], [20, 21]), ([10, 12], [20, 22]), ([11], [21]), ([12, 10], [22, 20])]
    found = Shortlist.learn(pairs, SIZE, common=1, near=1)
    assert [found.near[source].item() for source in (10, 11, 12, 13)] == [20, 21, 22, -1]
    assert found.common.tolist() == [20]
    assert found.of(torch.tensor([[12, 11]]), [BOS, EOS]).tolist() == [BOS, EOS, 20, 21, 22]
    with pytest.raises(UserError, match="there are none"):
        Shortlist.learn([], SIZE)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("small", [False, True])
def test_a_list_of_everything_changes_nothing(model, everything, beams, small) -> None:
    model = quantize(model) if small else model
    options = Search(num_beams=beams, max_length=9, suppress_tokens=(7,), num_return=beams)
    sources = [[5, 6, 7, EOS], [8, EOS], [9, 10, EOS]]
    want = run_job(Job(options, BOS, EOS, 100), model, sources)
    got = run_job(Job(options, BOS, EOS, 100, shortlist=everything), model, sources)
    assert [[h.ids for h in each] for each in got] == [[h.ids for h in each] for each in want]
    assert got[0][0].score == pytest.approx(want[0][0].score, abs=1e-4)


def test_only_tokens_of_the_list_are_written(model) -> None:
    near = torch.full((SIZE, 2), -1, dtype=torch.int32)
    near[5] = torch.tensor([30, 31])
    short = Shortlist(torch.tensor([12], dtype=torch.int32), near)
    options = Search(num_beams=2, max_length=8, first_token=17)
    told: list[int] = []
    job = Job(options, BOS, EOS, shortlist=short, tell=lambda _, ids: told.extend(ids))
    (best, *_) = run_job(job, model, [[5, EOS]], [[17, 19]])[0]
    assert set(best.ids) <= {BOS, EOS, 12, 17, 19, 30, 31}
    assert best.ids[:2] == [17, 19]
    assert told
    assert told == best.ids[: len(told)]


def test_phrases_are_sought_among_all_tokens(model, everything) -> None:
    demand = Demand((), object())  # type: ignore[arg-type]
    assert Shortening.of(model, everything, torch.tensor([[5]]), Search(), (BOS, EOS), [demand]) is None


def test_the_short_model_gives_the_same_logits(model, everything) -> None:
    ids = torch.tensor([2, 3, 9, 30])
    with torch.inference_mode():
        memory = model.encode(torch.tensor([[5, 6, 3]]))
        short = Shortened(model, ids)
        got = short.step(torch.tensor([[2]]), model.start(memory, 2))
        want = model.step(torch.tensor([[9]]), model.start(memory, 2))
    torch.testing.assert_close(got, want[:, ids])


def test_it_is_kept_in_a_folder(everything, tmp_path) -> None:
    assert Shortlist.open(tmp_path, SIZE, SIZE) is None
    everything.save(tmp_path)
    found = Shortlist.open(tmp_path, SIZE, SIZE)
    assert torch.equal(found.near, everything.near)
    assert torch.equal(found.common, everything.common)
    with pytest.raises(UserError, match="other vocabularies"):
        Shortlist.open(tmp_path, SIZE, 39)
    (tmp_path / FILE).write_bytes(b"nothing")
    with pytest.raises(UserError, match="is no shortlist"):
        Shortlist.open(tmp_path, SIZE, SIZE)
