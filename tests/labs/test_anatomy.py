"""L6."""

from __future__ import annotations


def test_the_last_quote_is_not_as_written_and_would_be_if_the_model_were_wired_so(measured):
    plain, broken = measured("anatomy"), measured("anatomy", True)
    assert plain.verdict == plain.expected == "not_as_written"
    assert plain.quote_verdicts == ["holds"] * 5 + ["not_as_written"]
    assert [row["reads"] for row in plain.rows if "reads" in row] == [6] * 6
    assert broken.verdict == "holds"
    assert [row["reads"] for row in broken.rows if "reads" in row] == [1, 2, 3, 4, 5, 6]
    assert plain.as_documented
    assert broken.as_documented


def test_every_weight_is_in_one_of_the_four_parts(measured, value):
    plain = measured("anatomy")
    assert all(row["weights"] == row["formula"] for row in plain.rows if "weights" in row)
    assert value(plain, "last") == 1
