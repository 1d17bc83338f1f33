"""Running a lab."""

from __future__ import annotations

import pytest
import torch

from regard import labs
from regard.errors import UserError
from regard.labs.frame.lab import Setting, environment, run


def test_every_lab_is_found_by_its_file():
    every = labs.every()
    assert [lab.name for lab in every] == [labs.find(lab.name).name for lab in every]
    assert {lab.name: lab.number for lab in every}.items() >= {"permute": 1, "scale": 2, "masks": 5, "cache": 13}.items()
    assert len({lab.number for lab in every}) == len(every) == len(labs.names())
    with pytest.raises(UserError, match="did you mean permute"):
        labs.find("permuted")


def test_every_text_is_in_both_languages():
    for lab in labs.every():
        for its in (lab.title, lab.sabotage, *lab.quotes, *dict(lab.design).values()):
            assert any("\u4e00" <= c <= "\u9fff" for c in its.zh), its
            assert not any("\u4e00" <= c <= "\u9fff" for c in its.en), its


def test_running_leaves_the_random_state_and_repeats_itself():
    lab = labs.find("anatomy")
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second = (run(lab, Setting(size="fast")) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert first.checks == second.checks
    assert first.settings == {"size": "fast", "seed": 0}
    assert first.environment == environment()


def test_another_seed_draws_other_numbers_and_judges_alike():
    lab = labs.find("masks")
    one, two = (run(lab, Setting(size="fast", seed=seed)) for seed in (1, 2))
    assert one.verdict == two.verdict == "holds"
    assert one.rows != two.rows


def test_sizes():
    assert [Setting(size=size).pick(1, 2, 3) for size in ("fast", "usual", "full")] == [1, 2, 3]
