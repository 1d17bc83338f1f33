"""Banks that take turns, against a simple reading of one candidate after another."""

from __future__ import annotations

import math

import pytest
import torch

from regard.decoding.turns import shared


def slowly(needs, ends, width, last):
    """Numbers of the candidates that are taken, of one sentence whose candidates come best first."""
    if last:
        return [n for n, need in enumerate(needs) if need == min(needs)][:width]
    finished = [n for n in [n for n, need in enumerate(needs) if need == 0][:width] if ends[n]]
    banks = {}
    for n, need in enumerate(needs):
        if not ends[n]:
            banks.setdefault(need, []).append(n)
    turns = []
    for rank in range(width):
        turn = [banks[need][rank] for need in sorted(banks) if len(banks[need]) > rank]
        turns += sorted(turn, key=lambda n: n != min(turn))
    if not turns and not finished:
        finished = [n for n in range(min(width, len(needs))) if ends[n]]
    return finished + sorted(turns[:width])


def one(needs, ends, width, last=False):
    """What `shared` takes of one sentence whose candidates come best first."""
    count = len(needs)
    place, score = torch.arange(count)[None], -torch.arange(float(count))[None]
    at = shared(place, score, torch.tensor([needs]), torch.tensor([ends]), width, torch.tensor([last]))
    return [n for n in at[0].tolist() if n >= 0]


def test_banks_take_turns() -> None:
    needs, none, some = [2, 2, 2, 1, 0, 0, 1], [False] * 7, [n == 4 for n in range(7)]
    assert one(needs, none, 3) == [0, 3, 4]  # the best of all, then those that need least
    assert one(needs, none, 5) == [0, 1, 3, 4, 5]
    assert one(needs, some, 2) == [4, 0, 5]
    assert one(needs, some, 2, True) == [4, 5]
    assert one([1, 1], [True, True], 2) == [0, 1]  # there is nothing but end marks


@pytest.mark.parametrize("width", [1, 2, 4, 7])
def test_random_candidates_against_the_simple_reading(width) -> None:
    """Batches of 64 sentences: some candidates stand there twice, some are none, some as good as others."""
    chance = torch.Generator().manual_seed(width)

    def draw(most, *shape):
        return torch.randint(0, most, shape, generator=chance)

    for most in (1, 3, 40):
        count = 2 * width + int(draw(9, 1))
        place = draw(60, 64, count)
        by_place = torch.where(draw(5, 64, 60) == 0, -math.inf, -draw(9, 64, 60) / 2)
        score, need, ends = by_place.gather(1, place), draw(most, 64, 60).gather(1, place), place % 12 == 3
        last = draw(4, 64) == 0
        taken = shared(place, score, need, ends, width, last)
        assert taken.shape == (64, 2 * width)
        for row in range(64):
            known = {
                at: (its, lack, end)
                for at, its, lack, end in zip(*(x[row].tolist() for x in (place, score, need, ends)))
                if its > -math.inf
            }
            order = sorted(known, key=lambda at: (-known[at][0], at))
            numbers = slowly([known[at][1] for at in order], [known[at][2] for at in order], width, bool(last[row]))
            assert [at for at in taken[row].tolist() if at >= 0] == [order[n] for n in numbers]
