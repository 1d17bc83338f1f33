"""L11: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import pytest
import torch

from regard.labs.frame.values import verdict_of
from regard.labs.lookup import ASK, CONTENTS, _by_hand, _cabinet, judge


def rows(largest=1.0, weight=0.99, even=0.4):
    its = {"weights": 1000, "drawers": 16, "sums": 0.0, "largest": largest, "weight": weight, "accuracy": 1.0}
    return {"attention": [its], "even": [its | {"accuracy": even}], "gru": [its | {"accuracy": 0.5}]}


HAND = {"sum": 0.0, "hull": 0.0, "written": 0.804}


def test_the_verdict_follows_from_the_weights():
    begin = {"weight": 0.06}
    assert verdict_of(judge(rows(), begin, HAND)) == "holds"
    assert verdict_of(judge(rows(largest=0.5), begin, HAND)) == "not_as_written"
    assert verdict_of(judge(rows(weight=0.1), begin, HAND)) == "not_as_written"
    assert verdict_of(judge(rows(), begin, HAND | {"hull": 0.5})) == "not_as_written"
    assert verdict_of(judge(rows(even=1.0), begin, HAND)) == "inconclusive", "even weights answer as well"
    assert verdict_of(judge(rows(), {"weight": 0.9}, HAND)) == "inconclusive", "it looked there before it was trained"


def test_the_answer_is_what_the_asked_drawer_holds():
    given, asked = _cabinet(torch.Generator().manual_seed(0), 8, 50)
    ids, answer = given["inputs"], given["targets"].ids
    drawer = ids[torch.arange(50), asked]
    assert torch.equal(drawer % CONTENTS, answer)
    assert torch.equal(drawer // CONTENTS, ids[:, -1] - ASK)
    assert all(len(set((row[:-1] // CONTENTS).tolist())) == 8 for row in ids), "labels that repeat"


def test_by_hand():
    its = _by_hand()
    assert its["sum"] < 1e-14
    assert its["hull"] == 0
    assert its["written"] == pytest.approx(0.80403)


@pytest.mark.slow
def test_both_ways(judged, value):
    plain, broken = judged("lookup", "not_as_written", "right", "learned")
    assert value(plain, "right") > 0.95
    assert value(broken, "learned") < 0.2
