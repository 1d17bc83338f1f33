from __future__ import annotations

import struct

import pytest
import torch

from regard.checkpoints.binary import TYPES, dequantized, read_binary
from regard.errors import UserError


def text(name: str) -> bytes:
    return struct.pack("<H", len(name.encode()) + 1) + name.encode() + b"\0"


def file(version: int, arrays: dict[str, torch.Tensor], aliases: dict[str, str] | None = None) -> bytes:
    """What CTranslate2 writes."""
    parts = [struct.pack("<I", version), text("TransformerSpec"), struct.pack("<II", 7, len(arrays))]
    for name, array in arrays.items():
        raw = array.contiguous().flatten().view(torch.uint8).numpy().tobytes() if array.dim() else scalar(array)
        old = struct.pack("<BI", array.element_size(), array.numel())
        kind = struct.pack("<BI", TYPES.index(array.dtype), len(raw)) if version >= 4 else old
        parts += [text(name), struct.pack(f"<B{array.dim()}I", array.dim(), *array.shape), kind, raw]
    if version >= 3:
        parts.append(struct.pack("<I", len(aliases or {})))
        parts += [text(a) + text(b) for a, b in (aliases or {}).items()]
    return b"".join(parts)


def scalar(array: torch.Tensor) -> bytes:
    return array[None].view(torch.uint8).numpy().tobytes()


ARRAYS = {
    "a/weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "a/number": torch.tensor(7, dtype=torch.int16),
    "a/eight": torch.tensor([-3, 4], dtype=torch.int8),
}


@pytest.mark.parametrize("version", [2, 3, 4, 6])
def test_arrays_are_read(tmp_path, version):
    arrays = dict(ARRAYS)
    if version >= 4:
        arrays |= {
            "b": torch.tensor([1.5, -2.0]).half(),
            "c": torch.tensor([1.5]).bfloat16(),
            "é": torch.tensor([9, 8]).int(),
        }
    (tmp_path / "model.bin").write_bytes(file(version, arrays, {"d": "a/weight"}))
    found = read_binary(tmp_path / "model.bin")
    assert (found.kind, found.revision) == ("TransformerSpec", 7)
    assert found.arrays.keys() == arrays.keys()
    for name, array in arrays.items():
        assert found.arrays[name].dtype == array.dtype
        assert torch.equal(found.arrays[name], array)
    assert found.aliases == ({"d": "a/weight"} if version >= 3 else {})


def test_every_cut_is_noticed(tmp_path):
    whole = file(6, ARRAYS, {"d": "a/weight"})
    for length in range(len(whole)):
        (tmp_path / "model.bin").write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"model\.bin: ends too early"):
            read_binary(tmp_path / "model.bin")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (file(7, ARRAYS), "version 7 is not known"),
        (b"PK\x03\x04" * 20, "version 67324752 is not known"),
        (file(6, ARRAYS) + b"x", "has 1 bytes after its end"),
        (file(6, ARRAYS, {"d": "e"}), "an alias names 'e', which is missing"),
        (file(6, ARRAYS).replace(b"a/eight", b"a/\xffight"), "a name is not UTF-8"),
        (file(4, ARRAYS).replace(struct.pack("<BI", 0, 24), struct.pack("<BI", 9, 24)), "a/weight has the unknown type 9"),
        (
            file(4, ARRAYS).replace(struct.pack("<BI", 0, 24), struct.pack("<BI", 0, 20)),
            "20 bytes, which do not fit its shape",
        ),
        (file(6, ARRAYS).replace(b"a/eight", b"a/\night"), "a name holds 'a/\\night'"),
        (
            struct.pack("<I", 6) + text("S") + struct.pack("<II", 7, 1) + text("none")
            + struct.pack("<B3IBI", 3, 0, 2**32 - 1, 2**32 - 1, 0, 0) + struct.pack("<I", 0),
            "0 bytes, which do not fit its shape 0×4294967295×4294967295",
        ),
    ],
)  # fmt: skip
def test_damage_is_told_in_one_line(tmp_path, content, words):
    (tmp_path / "model.bin").write_bytes(content)
    with pytest.raises(UserError) as error:
        read_binary(tmp_path / "model.bin")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file(tmp_path):
    with pytest.raises(UserError, match=r"model\.bin: cannot be read"):
        read_binary(tmp_path / "model.bin")


def test_small_weights_are_what_they_stand_for():
    matrix = torch.tensor([[1.0, -2.0], [0.5, 0.25]])
    scale = 127 / matrix.abs().amax(1)
    arrays = {
        "a/weight": (matrix * scale[:, None]).round().to(torch.int8),
        "a/weight_scale": scale,
        "b/weight": (matrix * 1000).to(torch.int16),
        "b/weight_scale": torch.tensor(1000.0),
        "c/weight": matrix,
    }
    found = dequantized(arrays)
    assert found.keys() == {"a/weight", "b/weight", "c/weight"}
    assert (found["a/weight"] - matrix).abs().max() < 0.01
    assert torch.allclose(found["b/weight"], matrix)
    assert torch.equal(found["c/weight"], matrix)
