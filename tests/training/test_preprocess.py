"""Steps done to text before anything is learned from it."""

from __future__ import annotations

import pytest

from regard.errors import UserError
from regard.text.corpus import Pair
from regard.training.preprocess import STEPS, preprocess
from regard.training.sections import Data


def test_stress_digits_go_from_phonemes_alone() -> None:
    rows = [Pair("route 66", "R UW1 T", 4), Pair("b", "AH0 M 66 x1", 5)]
    assert preprocess(rows, ["no-stress"], "en", "phonemes") == [Pair("route 66", "R UW T", 4), Pair("b", "AH M 66 x1", 5)]


def test_moses_lc_lowers_normalises_and_splits_both_sides() -> None:
    pytest.importorskip("sacremoses")
    rows = preprocess([Pair("A Dog’s life, isn't it?", "L'été « chaud ».", 1)], ["moses-lc"], "en", "fr")
    assert rows[0].source.startswith("a dog")
    assert rows[0].source.endswith("it ?")
    assert rows[0].target.split()[0] == "l&apos;"


def test_right_to_left_turns_the_target_alone() -> None:
    rows = [Pair("a b", "un chien court .", 1), Pair("a b", "我爱你", 2)]
    found = preprocess(rows, ["right-to-left"], "en", "fr")
    assert [(pair.source, pair.target) for pair in found] == [("a b", ". court chien un"), ("a b", "你爱我")]
    assert preprocess(found, ["right-to-left"], "en", "fr") == rows


def test_steps_are_done_in_order_and_none_changes_nothing() -> None:
    rows = [Pair("A", "B1", 1)]
    assert preprocess(rows, [], "en", "fr") == rows
    with pytest.raises(UserError, match=r"data.preprocess: unknown step 'upper'; known: moses-lc, no-stress"):
        preprocess(rows, ["upper"], "en", "fr")


def test_recipes_may_name_exactly_these_steps() -> None:
    for name in STEPS:
        assert Data(train="a", preprocess=name).preprocess == [name]
