"""What a comparison looks like in the terminal."""

from __future__ import annotations

from regard.evaluation.compare import Comparing, compare
from regard.evaluation.tables import comparison_lines


def test_the_table_has_scores_intervals_buckets_and_sentences() -> None:
    references = ["one two three four", "five six seven eight", "a b c d e f g h"]
    first, second = ["one two three four", "five six", "a b c d"], ["x", "five six seven eight", "a b c d"]
    found = compare([references], first, second, references, ("old", "new"), Comparing(samples=20, seed=3))
    text = "\n".join(comparison_lines(found))
    assert "A: old\nB: new" in text
    assert "20 resamples, seed 3" in text
    assert found.tests[0].signature in text
    for test in found.tests:
        assert f"{test.difference:+.2f} [{test.low:+.2f}, {test.high:+.2f}]" in text
    assert "       1-5          2" in text
    assert (
        text.index("where A is better") < text.index("line 1\n") < text.index("where B is better") < text.index("line 2\n")
    )
    assert all(line == line.rstrip() for line in comparison_lines(found))
