"""What is told while the search goes on is the beginning of what comes out, whatever is in the batch."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch

from regard.decoding import Hypothesis, Search, translate_ids
from regard.decoding.generate import Job, run_job
from regard.decoding.progress import Progress
from regard.errors import UserError
from regard.models import transformer

BOS, EOS = 2, 3
SOURCES = [[*range(5, 5 + n), EOS] for n in (7, 3, 12, 1, 5)]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(4)
    made = transformer.describe(vocab_size=30, num_layers=2, d_model=16, d_ff=32, num_heads=2).build().eval()
    for name, tensor in made.named_parameters():
        if not name.endswith("norm.weight"):
            tensor.data.normal_(0.0, 0.5)
    return made


def told(model, options, first=0):
    heard = defaultdict(list)
    job = Job(options, BOS, EOS, 30, first, lambda number, ids: heard[number].extend(ids))
    return run_job(job, model, SOURCES), heard


@pytest.mark.parametrize(
    "options",
    [
        Search(num_beams=1, max_length=20),
        Search(num_beams=4, max_length=20),
        Search(num_beams=3, num_return=3, max_length=15, stopping="first"),
        Search(sample=True, max_length=20, seed=3),
    ],
    ids=["greedy", "beam", "n-best", "sample"],
)
def test_what_is_told_is_the_beginning_of_the_answer(model, options):
    answers, heard = told(model, options, first=2)
    assert answers == translate_ids(model, SOURCES, options, BOS, EOS, batch_tokens=30, first=2)
    for number, (best, *_) in enumerate(answers):
        said = heard[number + 2]
        assert said == best.ids[: len(said)]
        if options.num_beams == 1 or options.sample:
            assert said == best.ids
    assert sum(map(len, heard.values())) > 5


def test_several_samples_are_not_told(model):
    assert not told(model, Search(sample=True, num_return=2, max_length=9))[1]


def test_finished_hypotheses_hold_back_what_they_do_not_share():
    heard = []
    progress = Progress(lambda sentence, ids: heard.append((sentence, ids)), 3, EOS)
    ids = torch.tensor([[[7, 8, 9], [7, 8, 5]], [[7, 8, 9], [1, 1, 1]]])
    alive = torch.tensor([[True, True], [True, False]])
    progress.beams(ids, alive, torch.tensor([0, 2]), [[Hypothesis([7, 4], 0.0, 0.0)], [], []])
    assert heard == [(0, [7]), (2, [7, 8, 9])]
    progress.beams(ids, alive, torch.tensor([0, 2]), [[], [], []])
    assert heard[2:] == [(0, [8])]


def test_worker_processes_cannot_be_followed(model):
    with pytest.raises(UserError, match="workers"):
        run_job(Job(Search(), BOS, EOS, 30, 0, print), model, SOURCES, workers=2)
