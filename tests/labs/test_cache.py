"""L13."""

from __future__ import annotations


def test_both_ways(judged, value):
    plain, _ = judged("cache", "not_as_written", "float64", "float32", "beams")
    assert plain.verdict == "holds"
    assert value(plain, "float64") < 1e-10
    assert value(plain, "float32") < 1e-4
    assert value(plain, "bytes") == 0
    assert value(plain, "forgotten") > 1e-3


def test_a_cached_answer_costs_the_weights_once_and_its_keys(measured):
    """2 layers of 64, d_ff 128, 100 words: 2 · (4·64² + 2·64·128) + 64·100 weights, and 4·n·64 a layer for n keys."""
    weights = 2 * (4 * 64**2 + 2 * 64 * 128) + 64 * 100
    for row in measured("cache").rows:
        if "n" in row:
            assert row["cached"] == 2 * weights + 2 * 4 * row["n"] * 64
