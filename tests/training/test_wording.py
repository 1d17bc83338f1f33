"""The nearest key, and values as a person writes them."""

from __future__ import annotations

import pytest

from regard.training.recipe import Recipe
from regard.training.wording import dotted, keys_of, nearest, shown

KEYS = keys_of(Recipe)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("training.larning_rate", "training.learning_rate"),
        ("trainig.seed", "training.seed"),
        ("num_beams", "search.num_beams"),
        ("model.num_beems", "search.num_beams"),
        ("data.clean.max_rato", "data.clean.max_ratio"),
    ],
)
def test_the_nearest_key_is_found_also_in_another_section(wrong: str, right: str) -> None:
    assert nearest(wrong, KEYS) == f"; did you mean {right}?"


def test_what_is_like_nothing_gets_no_guess() -> None:
    assert nearest("qqq.zzz", KEYS) == ""


def test_keys_and_values_read_as_in_the_file() -> None:
    assert dotted(("training", "betas", 1)) == "training.betas[1]"
    assert {"data.clean.max_ratio", "tokenizer.kind", "model.size", "evaluation"} <= set(KEYS)
    assert [shown(value) for value in (None, True, 0.5, "no", [1, "a"])] == ["null", "true", "0.5", "'no'", "[1, a]"]
