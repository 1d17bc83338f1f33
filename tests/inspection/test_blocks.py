"""Arrays go into a trace and come back."""

from __future__ import annotations

import base64

import numpy as np
import pytest
import torch

from regard.inspection.blocks import Block, Blocks, block


@pytest.mark.parametrize(("dtype", "near"), [("float32", 0), ("float16", 2.5e-4), ("uint8", 0.5)])
def test_plain_blocks(dtype: str, near: float) -> None:
    weights = torch.rand(3, 4, 5)
    made = block(weights, dtype)
    assert made.shape == [3, 4, 5]
    assert made.size == len(made.raw())
    assert np.abs(made.array() - (weights.numpy() if dtype != "uint8" else weights.numpy().astype(np.uint8))).max() <= near


def test_roots_in_a_byte_are_near() -> None:
    """The coding of overviews: at most 0.004 away, zero and one exact."""
    weights = np.linspace(0, 1, 100001)
    back = block(weights, "uint8", "sqrt").array()
    assert np.abs(back - weights).max() < 0.0040
    assert (back[0], back[-1]) == (0, 1)


def test_bytes_are_little_endian() -> None:
    assert base64.b64decode(block([1], "int32").data or "") == b"\x01\0\0\0"
    assert block([1.0], "float16").raw() == b"\x00\x3c"
    assert block(np.asarray([1.0], dtype=">f8"), "float32").raw() == b"\0\0\x80\x3f"


@pytest.mark.parametrize(
    ("data", "message"),
    [("AAA", "not base64"), ("AAAA", "has 8 bytes, its data 3"), (None, "not here"), ("é!", "not base64")],
)
def test_damage_is_seen(data: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Block(shape=[2], dtype="float32", data=data).raw()


def test_names_are_taken_once() -> None:
    blocks = Blocks()
    names = [blocks.add("w", [n], "int32") for n in range(3)]
    assert names == ["w", "w~1", "w~2"]
    assert [int(blocks.made[name].array()[0]) for name in names] == [0, 1, 2]
