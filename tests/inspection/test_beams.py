"""The tree of a search: its answers are its branches, its numbers are the search's."""

from __future__ import annotations

from typing import Any

import pytest

from regard.inspection.beams import followed


@pytest.mark.parametrize("kind", ["translate", "bahdanau", "no-attention"])
@pytest.mark.parametrize("beams", [2, 4])
def test_answers_are_branches(made: Any, kind: str, beams: int) -> None:
    its = made(kind)
    beam, found = followed(its, "A dog runs", {"num_beams": beams})
    plain = its.translate(["A dog runs"], details=True, num_beams=beams, num_return=beams)[0]
    assert [one.ids for one in found] == [plain.ids, *(one.ids for one in plain.alternatives)]
    assert beam is not None
    assert beam.num_beams == beams
    path, place = [], next(n for n, node in enumerate(beam.nodes) if node.best and not node.kept)
    assert beam.nodes[place].total == pytest.approx(found[0].log_prob, abs=1e-3)
    while place >= 0:
        path.append(beam.nodes[place])
        place = beam.nodes[place].parent
    told = [(node.token, node.log_prob) for node in reversed(path)]
    assert [token for token, _ in told][: len(found[0].ids)] == found[0].ids
    assert [value for _, value in told] == pytest.approx(found[0].token_log_probs, abs=1e-4)
    assert all(node.best for node in path)
    assert sum(node.best for node in beam.nodes) == len(path)


def test_nodes_are_a_tree_of_steps(made: Any) -> None:
    beam, found = followed(made("translate"), "The red house", {"num_beams": 3})
    assert beam is not None
    for number, node in enumerate(beam.nodes):
        assert node.parent < number
        if node.parent < 0:
            assert node.step == 0
        else:
            assert node.step == beam.nodes[node.parent].step + 1
            assert node.total == pytest.approx(beam.nodes[node.parent].total + node.log_prob, abs=1e-4)
            assert beam.nodes[node.parent].kept
    pairs = [(node.parent, node.token) for node in beam.nodes if not node.ended]
    assert len(pairs) == len(set(pairs))
    assert max(sum(node.step == step and not node.ended for node in beam.nodes) for step in range(9)) <= 3
    assert sum(node.ended for node in beam.nodes) == len(found)


def test_greedy_and_samples_have_no_tree(made: Any) -> None:
    for search in ({"num_beams": 1}, {"sample": True, "seed": 3}):
        beam, found = followed(made("translate"), "A dog", search)
        assert beam is None
        assert len(found) == 1


def test_as_many_answers_as_are_asked_for(made: Any) -> None:
    assert len(followed(made("translate"), "A dog", {"num_beams": 4, "num_return": 2})[1]) == 2
