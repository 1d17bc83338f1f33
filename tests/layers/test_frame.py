from __future__ import annotations

from regard.layers.frame import Frame
from regard.layers.masks import Causal, Everything
from regard.layout import Layout


def test_a_frame_has_every_mask_once_and_the_memory():
    layout, memory = Layout.padded([3, 2]), Layout.padded([4, 1])
    frame = Frame.of([Causal(), Everything(), Causal()], layout, layout, memory)
    assert set(frame.masks) == {Causal(), Everything()}
    assert frame.masks[Causal()].allowed.shape == (2, 1, 3, 3)
    assert frame.across.allowed.shape == (2, 1, 1, 4)
    assert frame.layout is layout


def test_without_a_memory_nothing_is_lowered_for_it():
    layout = Layout.unpadded(3)
    assert Frame.of([Causal()], layout, layout).across.allowed is None
