"""Length penalties tried by real decoding."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from regard.errors import UserError
from regard.evaluation.task import Task
from regard.evaluation.tune import Trial, best_of_trials, tune_length

REFERENCES = ["a b c d e", "f g h i j"]


class Longer:
    """Writes as many words of the reference as its length penalty allows."""

    search = SimpleNamespace(num_beams=4)
    tokenizers = SimpleNamespace(target=SimpleNamespace(encode_batch=lambda texts: [text.split() for text in texts]))

    def translate(self, texts: list[str], *, length_penalty: float, num_beams: Any) -> list[str]:
        self.beams = num_beams
        count = max(1, round(3 + 2 * length_penalty))
        return [" ".join([*text.split(), "x", "y"][:count]) for text in REFERENCES]


def test_the_penalty_that_scores_best() -> None:
    told: list[Trial] = []
    task = Task([REFERENCES], ["s", "s"])
    trials = tune_length(Longer(), task, "bleu", (0.0, 1.0, 2.0), 6, told.append)
    assert trials == told
    assert [one.length_penalty for one in trials] == [0.0, 1.0, 2.0]
    assert [one.ratio for one in trials] == [0.6, 1.0, 1.4]
    assert trials[1].score == pytest.approx(100)
    assert best_of_trials(trials, "bleu") == trials[1]
    assert best_of_trials(tune_length(Longer(), task, "ter", (0.0, 1.0)), "ter").length_penalty == 1.0
    equal = [Trial(0.2, 30.0, 1.0), Trial(0.9, 30.0, 1.0), Trial(1.6, 29.0, 1.0)]
    assert best_of_trials(equal, "chrf").length_penalty == 0.9


def test_mistakes() -> None:
    with pytest.raises(UserError, match="unknown metric 'wer'"):
        tune_length(Longer(), Task([REFERENCES], ["s", "s"]), "wer")
    with pytest.raises(UserError, match="nothing to translate"):
        tune_length(Longer(), Task([REFERENCES]))
    with pytest.raises(UserError, match="searches greedily"):
        tune_length(Longer(), Task([REFERENCES], ["s", "s"]), num_beams=1)
