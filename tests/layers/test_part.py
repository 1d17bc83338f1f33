from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from regard.layers.attention import Attention
from regard.layers.block import Block
from regard.layers.feedforward import Dense
from regard.layers.masks import Causal, Window
from regard.layers.part import from_json, part, to_json

BLOCK = Block(Attention(2, mask=Causal() & ~Window(3)), Dense(8))


def test_a_description_goes_through_json_unchanged():
    assert from_json(to_json(BLOCK)) == BLOCK
    assert from_json(to_json((BLOCK, BLOCK, None, 1.5, "x", True))) == (BLOCK, BLOCK, None, 1.5, "x", True)
    assert to_json(Window(3)) == {"part": "Window", "width": 3}


def test_a_description_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        BLOCK.dropout = 0.5
    assert hash(BLOCK) == hash(from_json(to_json(BLOCK)))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"part": "Windo", "width": 3}, "description: unknown part 'Windo'"),
        ({"part": "Both", "left": {"part": "Window", "widht": 3}}, "description.left: Window has no widht; it has width"),
        ([{"part": "Window"}], r"description\[0\].*width"),
        ({"width": 3}, "unknown part None"),
    ],
)
def test_what_is_unknown_is_named_with_its_place(value, words):
    with pytest.raises(ValueError, match=words):
        from_json(value)


def test_what_is_no_value_is_refused():
    with pytest.raises(TypeError, match="not dict"):
        to_json({"a": 1})


def test_two_parts_of_one_name_are_refused():
    with pytest.raises(TypeError, match="two parts are named Window"):
        part(type("Window", (), {"__module__": "elsewhere"}))
