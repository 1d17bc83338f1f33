"""L12: from made-up measurements at once, from real ones in the slow tests."""

from __future__ import annotations

import pytest
import torch

from regard.labs.frame.values import verdict_of
from regard.labs.heads import ASK, CONTENTS, _groups, _texts, judge


def measured(one=0.9, two=0.95, own=0.6, other=0.0, begin=0.12):
    rows = [{"both": both, "label": both, "operations": 100} for both in (one, two, two, two)]
    lost = {"label": {"label": own, "before": other}, "before": {"label": other, "before": own}}
    return rows, {"lost": lost, "begin": {"label": [begin], "before": [begin]}}, 0.0


def test_the_verdict_follows_from_what_is_lost():
    assert verdict_of(judge(*measured())) == "holds_with_limits"
    assert verdict_of(judge(*measured(one=0.5))) == "holds"
    assert verdict_of(judge(*measured(other=0.6))) == "not_as_written", "heads that serve both look-ups alike"
    assert verdict_of(judge(*measured(begin=0.9))) == "inconclusive"
    assert verdict_of(judge(*measured(one=0.2, two=0.3))) == "inconclusive", "never learned"


def test_four_heads_are_four_single_ones_and_cost_what_one_costs():
    difference, counted = _groups()
    assert difference < 1e-13
    assert len(set(counted)) == 1


def test_an_answer_is_both_contents():
    given, place = _texts(torch.Generator().manual_seed(0), 8, 50)
    ids, answer = given["inputs"], given["targets"].ids
    item = ids[torch.arange(50), place]
    assert torch.equal(item // CONTENTS, ids[:, -1] - ASK)
    assert torch.equal(item % CONTENTS, answer // CONTENTS)
    assert torch.equal(ids[:, -2] % CONTENTS, answer % CONTENTS)


@pytest.mark.slow
def test_both_ways(judged, value):
    plain, _ = judged("heads", "not_as_written", "roles")
    assert value(plain, "operations") == 0
    assert [row["heads"] for row in plain.rows] == [1, 2, 4, 8]
