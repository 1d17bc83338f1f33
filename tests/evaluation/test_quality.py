"""Fitting the quality estimate."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.quality import FEATURES, checked, estimate, features
from regard.errors import UserError
from regard.evaluation.quality import calibrate, draw, fit, keep, measured, reliability, rising
from regard.evaluation.task import Task
from regard.translator import Translation


def made(count: int, seed: int = 1) -> tuple[list[Translation], list[int], list[float]]:
    """Translations whose chrF follows their log-probability, with noise."""
    draw_ = random.Random(seed)
    found, real = [], []
    for _ in range(count):
        mean = -draw_.random() * 3
        logs = [mean + draw_.gauss(0, 0.1) for _ in range(8)]
        found.append(
            Translation("a b c", "x y", 0.0, 0.0, token_log_probs=logs, ids=list(range(7)), explained=draw_.random())
        )
        real.append(min(100.0, max(0.0, 90 + 25 * mean + draw_.gauss(0, 5))))
    return found, [6] * count, real


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_rising_steps_are_nearest(values: list[float]) -> None:
    steps = rising(values)
    assert sum(count for _, count in steps) == len(values)
    heights = [height for height, _ in steps]
    assert all(a < b for a, b in pairwise(heights))
    assert sum(height * count for height, count in steps) == pytest.approx(sum(values), abs=1e-6)


def test_rising_steps_by_hand() -> None:
    assert rising([1, 3, 2, 4]) == [(1.0, 1), (2.5, 2), (4.0, 1)]
    assert rising([3, 2, 1]) == [(2.0, 3)]


def test_the_estimate_follows_what_is_to_be_estimated() -> None:
    translations, tokens, real = made(400)
    found = calibrate(translations, tokens, real)
    assert found.correlation > 0.9
    assert found.error < 3
    assert [one.count for one in found.bins] == [40] * 10
    assert [one.estimated for one in found.bins] == sorted(one.estimated for one in found.bins)
    formula = checked(json.loads(json.dumps(found.formula)))
    others, counts, real = made(200, seed=2)
    told = [estimate(formula, features(one, count, formula["length"])) for one, count in zip(others, counts)]
    assert np.corrcoef(told, real)[0, 1] > 0.9
    assert abs(np.mean(told) - np.mean(real)) < 2
    assert "correlation with chrF" in found.lines()[0]
    assert len(found.json()["bins"]) == 10


def test_noise_is_not_taken_for_quality() -> None:
    """What is reported is measured on sentences that were held out."""
    translations, tokens, real = made(300)
    random.Random(3).shuffle(real)
    assert abs(calibrate(translations, tokens, real).correlation) < 0.2


def test_features_that_never_change_do_no_harm() -> None:
    table = np.zeros((60, len(FEATURES)))
    formula = fit(table, np.full(60, 50.0))
    assert estimate(formula, [0.0] * len(FEATURES)) == pytest.approx(50.0)


def test_too_few_sentences_are_refused() -> None:
    with pytest.raises(UserError, match="needs 50 sentences or more, these are 49"):
        calibrate(*made(49))


def test_bins() -> None:
    bins = reliability([3.0, 1.0, 2.0, 4.0], [30.0, 10.0, 20.0, 40.0], 2)
    assert [(one.estimated, one.real, one.count) for one in bins] == [(1.5, 15.0, 2), (3.5, 35.0, 2)]
    assert len(reliability([1.0], [1.0])) == 1


def test_it_is_kept_in_the_folder_and_drawn(tmp_path: Path) -> None:
    found = calibrate(*made(60))
    with pytest.raises(UserError, match=r"has no regard\.json"):
        keep(tmp_path, found)
    (tmp_path / "regard.json").write_text('{"version": 1}', encoding="utf-8")
    keep(tmp_path, found)
    told = json.loads((tmp_path / "regard.json").read_text(encoding="utf-8"))
    assert told["version"] == 1
    assert checked(told["quality"])["sentences"] == 60
    for name in ("a.svg", "a.png"):
        draw(found, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000


class Told:
    """A translator that gives what was made."""

    def __init__(self, count: int) -> None:
        self.made, self.tokens, _ = made(count)
        self.tokenizer = self

    def translate(self, texts: list[str], *, details: bool, confidence: bool) -> list[Translation]:
        assert details
        assert confidence
        return self.made

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [[1] * 5 for _ in texts]

    def frame(self, ids: list[int]) -> tuple[tuple[list[int], list[int]], bool]:
        return ([*ids, 2], [0] * 6), False


def test_a_task_is_translated_and_scored() -> None:
    task = Task([["x y"] * 30 + ["q"] * 30], ["a b c"] * 60)
    found = measured(Told(60), task)
    assert found.sentences == 60
    assert found.real[0] == 100.0
    assert found.real[-1] == 0.0
    with pytest.raises(UserError, match="the task has no sources"):
        measured(Told(60), Task([["x"]]))
