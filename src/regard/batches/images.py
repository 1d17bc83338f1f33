"""Images with their classes, as examples: idx files (MNIST's), or folders of image files, a folder for each class."""

from __future__ import annotations

import gzip
import hashlib
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.batches.data import TokenisedPairs
from regard.errors import UserError

LARGEST = 1 << 31
"""Numbers that an idx file may have."""
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


@dataclass(frozen=True, eq=False)
class Pictures:
    """pixels: UInt8[N C H W]. labels: the class of each by name."""

    pixels: np.ndarray
    labels: list[str]

    def part(self, first: int, after: int) -> Pictures:
        """Some of them."""
        return Pictures(self.pixels[first:after], self.labels[first:after])

    def __len__(self) -> int:
        return len(self.labels)

    def examples(self, names: list[str], name: str) -> TokenisedPairs:
        """As examples: source the numbers of an image, target its class. UserError for a class that is not in `names`."""
        numbers = {label: number for number, label in enumerate(names)}
        for at, label in enumerate(self.labels, 1):
            if label not in numbers:
                raise UserError(f"{name}, image {at}: the class {label!r} is not in the training data")
        pixels = np.ascontiguousarray(self.pixels).reshape(-1)
        count = np.arange(len(self) + 1, dtype=np.int64)
        target = np.array([numbers[label] for label in self.labels], dtype=np.int32)
        arrays = {
            "source": pixels,
            "source_offsets": count * (len(pixels) // max(len(self), 1)),
            "target": target,
            "target_offsets": count,
            "lines": count[1:],
        }
        key = hashlib.sha256(pixels.tobytes() + target.tobytes()).hexdigest()
        return TokenisedPairs(arrays, key, name)


def read_idx(path: str | Path) -> np.ndarray:
    """The array UInt8[…] of an idx file, plain or gzip. UserError if it is none."""
    path = Path(path)
    try:
        with path.open("rb") as plain:
            packed = plain.read(2) == b"\x1f\x8b"
        with gzip.open(path) if packed else path.open("rb") as file:
            head = file.read(4)
            if len(head) < 4 or head[:3] != b"\0\0\x08":
                raise UserError(f"{path}: is not an idx file of bytes")
            sides = file.read(4 * head[3])
            shape = tuple(side for (side,) in struct.iter_unpack(">I", sides[: len(sides) // 4 * 4]))
            count = math.prod(shape)
            if count > LARGEST:
                raise UserError(f"{path}: its header promises {count:,} numbers; {LARGEST:,} at most are read")
            raw = file.read(count + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None
    if len(raw) != count or len(shape) != head[3]:
        held = f"{len(raw)}" if len(raw) <= count else f"more than {count}"
        raise UserError(f"{path}: holds {held} numbers, its header promises {' x '.join(map(str, shape))}")
    try:
        return np.frombuffer(raw, dtype=np.uint8).reshape(shape)
    except ValueError:  # more sides than NumPy has, or the product of all but an empty one is too large
        raise UserError(f"{path}: its header promises {' x '.join(map(str, shape))} numbers, which is no array") from None


def read_idx_pair(images: str | Path, labels: str | Path) -> Pictures:
    """Images and labels of two idx files. UserError if they do not belong together."""
    pixels, classes = read_idx(images), read_idx(labels)
    if pixels.ndim != 3 or classes.ndim != 1 or len(pixels) != len(classes):
        raise UserError(f"{images} and {labels}: are not images and as many labels ({pixels.shape}, {classes.shape})")
    return Pictures(pixels[:, None], [str(int(number)) for number in classes])


def read_folder(folder: str | Path) -> Pictures:
    """The images of a folder that has a folder for each class, in order of their names. All must be equally large; where
    all are grey they have one channel, else three. UserError otherwise, or if Pillow is missing."""
    folder = Path(folder)
    try:
        from PIL import Image
    except ImportError:
        raise UserError(f"{folder}: reading images needs Pillow; install it with pip install 'regard[images]'") from None
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder")
    files = [f for f in sorted(folder.glob("*/*")) if f.suffix.lower() in ENDINGS]
    if not files:
        raise UserError(f"{folder}: holds no images; give a folder with a folder of images for each class")
    opened = []
    for file in files:
        try:
            with Image.open(file) as image:
                opened.append(np.asarray(image.convert("L" if image.mode in ("1", "L", "I;16") else "RGB")))
        except Exception as error:  # Pillow has many ways to say that a file is broken, or too large
            raise UserError(f"{file}: cannot be read as an image ({' '.join(str(error).split())[:200]})") from None
        if opened[-1].shape[:2] != opened[0].shape[:2]:
            sizes = [f"{one.shape[1]}x{one.shape[0]}" for one in (opened[-1], opened[0])]
            raise UserError(f"{file}: has {sizes[0]} pixels, the first image {sizes[1]}; make all equally large")
    grey = all(one.ndim == 2 for one in opened)
    channels = [
        one[None] if grey else np.moveaxis(one if one.ndim == 3 else np.stack([one] * 3, -1), -1, 0) for one in opened
    ]
    return Pictures(np.stack(channels), [file.parent.name for file in files])
