"""Accuracy and F1, against figures that can be counted on fingers and against scikit-learn."""

from __future__ import annotations

import random

import pytest

from regard.evaluation.classes import accuracy, macro_f1, span_f1, spans


def test_accuracy() -> None:
    assert accuracy([1, 2, 3], [1, 0, 3]) == pytest.approx(2 / 3)
    with pytest.raises(ValueError):
        accuracy([], [])


def test_macro_f1_is_scikit_learns() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    draw = random.Random(1)
    right = [draw.randint(0, 4) for _ in range(60)]
    given = [one if draw.random() < 0.6 else draw.randint(0, 5) for one in right]
    assert macro_f1(given, right) == pytest.approx(metrics.f1_score(right, given, average="macro", zero_division=0))


def test_spans_as_conll_reads_them() -> None:
    assert spans(["B-A", "I-A", "O", "I-B", "B-B"]) == {("A", 0, 2), ("B", 3, 4), ("B", 4, 5)}
    assert spans(["B-A", "I-B"]) == {("A", 0, 1), ("B", 1, 2)}
    assert spans(["O", "O"]) == set()


def test_span_f1_counts_whole_spans() -> None:
    right = [["B-A", "I-A", "O"], ["B-B", "O", "B-A"]]
    given = [["B-A", "O", "O"], ["B-B", "O", "B-A"]]
    assert span_f1(given, right) == pytest.approx(2 * 2 / (3 + 3))
    assert span_f1(right, right) == 1.0
    assert span_f1([["O"]], [["O"]]) == 1.0
    assert span_f1([["O"]], [["B-A"]]) == 0.0
