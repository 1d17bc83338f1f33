"""The short training of labs."""

from __future__ import annotations

import torch

from regard.architecture import Description, Targets
from regard.labs.frame.build import built, stack
from regard.labs.frame.train import answers, right, train
from regard.layers.heads import Classify

TOKENS = 10


def model(seed=0):
    return built(Description(Classify(2, "mean"), stack(d_model=16, num_layers=1, vocab_size=TOKENS)), torch.float32, seed)


def parity(source):
    """Are all tokens of the lower half?"""
    answer = torch.randint(0, 2, (32,), generator=source)
    ids = torch.randint(0, TOKENS // 2, (32, 4), generator=source) + answer[:, None] * (TOKENS // 2)
    return {"inputs": ids, "targets": Targets(answer)}


def test_it_learns_and_gives_the_loss_at_each_update():
    its = model()
    losses = train(its, parity, 60)
    assert len(losses) == 60
    assert losses[-1] < 0.1 < losses[0]
    assert right(its, parity(torch.Generator().manual_seed(9))) == 1.0
    assert not its.training


def test_batches_are_the_same_for_the_same_seed_whatever_the_model():
    drawn = []

    def draw(source):
        drawn.append(parity(source)["inputs"])
        return parity(source)

    train(model(0), draw, 2, seed=3)
    train(model(1), draw, 2, seed=3)
    assert torch.equal(drawn[0], drawn[2])
    assert torch.equal(drawn[1], drawn[3])


def test_it_ends_where_the_loss_is_reached_and_tells_each_step():
    seen = []
    losses = train(model(), parity, 200, constant=True, until=0.2, watch=seen.append)
    assert len(losses) < 200
    assert sum(losses[-10:]) / 10 < 0.2
    assert seen == list(range(len(losses) + 1))


def test_frozen_weights_stay():
    its = model()
    its.encoder.embed.requires_grad_(False)
    before = its.encoder.embed.tokens.weight.clone()
    train(its, parity, 3)
    assert torch.equal(its.encoder.embed.tokens.weight, before)


def test_answers_are_beside_what_they_should_be():
    given = parity(torch.Generator().manual_seed(1))
    said, wanted = answers(model(), given)
    assert said.shape == wanted.shape == (32,)
    assert torch.equal(wanted, given["targets"].ids)
