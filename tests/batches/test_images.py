"""Images from idx files and folders."""

from __future__ import annotations

import gzip
import math
import struct
from pathlib import Path

import numpy as np
import pytest

from regard.batches.images import read_folder, read_idx, read_idx_pair
from regard.errors import UserError

Image = pytest.importorskip("PIL.Image")


def idx(path: Path, values: np.ndarray, packed: bool = False) -> Path:
    head = bytes([0, 0, 8, values.ndim]) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    raw = head + values.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    return path


def test_idx_files_plain_and_packed(tmp_path: Path) -> None:
    values = np.arange(24).reshape(2, 3, 4)
    for packed in (False, True):
        images = idx(tmp_path / "images", values, packed)
        labels = idx(tmp_path / "labels", np.array([7, 3]), packed)
        found = read_idx_pair(images, labels)
        assert found.pixels.shape == (2, 1, 3, 4)
        assert found.labels == ["7", "3"]
        examples = found.examples(["3", "7"], "images")
        assert examples.pair(0)[0].tolist() == list(range(12))
        assert examples.pair(0)[1].tolist() == [1]
    with pytest.raises(UserError, match="image 1: the class '7' is not in the training data"):
        found.examples(["3"], "images")


def test_heads_that_promise_more_than_there_is(tmp_path: Path) -> None:
    """Products beyond 64 bits, more sides than the file has bytes, and a packed file that goes on for ever."""
    for head in (b"\0\0\x08\x02" + b"\xff" * 8, b"\0\0\x08\xff", b"\0\0\x08\x01\0\0\0\x05abc"):
        (tmp_path / "a").write_bytes(head)
        with pytest.raises(UserError, match="promises"):
            read_idx(tmp_path / "a")
    with gzip.open(tmp_path / "a", "wb") as file:
        file.write(b"\0\0\x08\x01\0\0\0\x05" + bytes(8 << 20))
    with pytest.raises(UserError, match="holds more than 5 numbers"):
        read_idx(tmp_path / "a")
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:100])
    with pytest.raises(UserError, match=r"promises|cannot be read"):
        read_idx(tmp_path / "a")


@pytest.mark.parametrize("sides", [(0, 2**32 - 1, 2**32 - 1, 2**32 - 1), (1,) * 80], ids=["large", "many"])
def test_heads_of_arrays_that_cannot_be(tmp_path: Path, sides: tuple[int, ...]) -> None:
    """Found by the fuzzer."""
    content = bytes([0, 0, 8, len(sides)]) + struct.pack(f">{len(sides)}I", *sides) + bytes(math.prod(sides))
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(UserError, match="which is no array"):
        read_idx(tmp_path / "a")


def test_what_is_no_idx_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"nothing")
    with pytest.raises(UserError, match="is not an idx file"):
        read_idx(path)
    raw = idx(path, np.arange(4)).read_bytes()
    path.write_bytes(raw[:-1])
    with pytest.raises(UserError, match="holds 3 numbers, its header promises 4"):
        read_idx(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_idx(tmp_path / "absent")
    with pytest.raises(UserError, match="as many labels"):
        read_idx_pair(idx(tmp_path / "a", np.zeros((2, 2, 2))), idx(tmp_path / "b", np.zeros(3)))


def test_a_folder_for_each_class(tmp_path: Path) -> None:
    for label, grey in (("cat", 10), ("dog", 200), ("dog", 220)):
        (tmp_path / label).mkdir(exist_ok=True)
        Image.fromarray(np.full((3, 4), grey, dtype=np.uint8)).save(tmp_path / label / f"{grey}.png")
    found = read_folder(tmp_path)
    assert found.labels == ["cat", "dog", "dog"]
    assert found.pixels.shape == (3, 1, 3, 4)
    assert found.pixels[:, 0, 0, 0].tolist() == [10, 200, 220]
    Image.fromarray(np.zeros((3, 4, 3), dtype=np.uint8)).save(tmp_path / "cat" / "colour.png")
    assert read_folder(tmp_path).pixels.shape == (4, 3, 3, 4)
    Image.fromarray(np.zeros((5, 5), dtype=np.uint8)).save(tmp_path / "cat" / "large.png")
    with pytest.raises(UserError, match="has 5x5 pixels, the first image 4x3"):
        read_folder(tmp_path)


def test_a_folder_without_images(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no images"):
        read_folder(tmp_path)
    with pytest.raises(UserError, match="no such folder"):
        read_folder(tmp_path / "absent")
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "x.png").write_text("no image", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be read as an image"):
        read_folder(tmp_path)
