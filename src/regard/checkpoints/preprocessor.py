"""preprocessor_config.json: how pictures become the numbers that a model of images reads."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import UserError

PREPROCESSOR = "preprocessor_config.json"
WIDEST, PIXELS, MADE = 2048, 64_000_000, 12_000_000
"""The widest side that a model may ask for, and the most pixels of a picture that is read, and of one that is made of it: a
small file may hold billions."""

_IMPLEMENTED: dict[str, tuple[Any, ...]] = {"do_pad": (None, False)}


@dataclass(frozen=True)
class Preparation:
    """Resize to `size` (height, width; None: as it is) by the filter with PIL's number `resample`, cut out the middle
    (`crop`, height and width), × `scale`, then minus `mean` and divided by `std`, a number each a channel."""

    channels: int
    size: tuple[int, int] | int | None = None
    resample: int = 2
    crop: tuple[int, int] | None = None
    scale: float = 1.0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any] | None, channels: int, where: str = PREPROCESSOR) -> Preparation:
        """From the document of a folder, with the defaults of transformers. UserError: there is none, or it asks for a step
        that is not known."""
        if not settings:
            raise UserError(f"{where}: is missing; it says how pictures become numbers (image_mean, image_std, size)")
        for key, harmless in _IMPLEMENTED.items():
            if settings.get(key) not in harmless:
                raise UserError(f"{where}: {key} is {settings[key]!r}, which regard does not do")
        size = settings.get("size", {"height": 224, "width": 224}) if settings.get("do_resize", True) else None
        normal = settings.get("do_normalize", True)
        mean, std = (_numbers(settings, key, where) if normal else None for key in ("image_mean", "image_std"))
        for name, values in (("image_mean", mean), ("image_std", std)):
            if values is not None and len(values) != channels:
                raise UserError(f"{where}: {name} has {len(values)} numbers, the model reads {channels} channels")
        return cls(
            channels,
            None if size is None else _size(size, where),
            _between(settings.get("resample", 2), 0, 5, "resample", where),
            _pair(settings.get("crop_size", {"height": 224, "width": 224}), where)
            if settings.get("do_center_crop")
            else None,
            _number(settings.get("rescale_factor", 1 / 255), "rescale_factor", where)
            if settings.get("do_rescale", True)
            else 1.0,
            mean,
            std,
        )

    def pixels(self, image: Any) -> np.ndarray:
        """Float32[C H W] of a file's path, a PIL image or an array (H W, H W C, 0 to 255). UserError: it cannot be opened,
        or Pillow is missing."""
        picture = _opened(image, "L" if self.channels == 1 else "RGB")
        if self.size is not None:
            picture = picture.resize(self._target(picture.size), self.resample)
        if self.crop is not None:
            left, top = (picture.width - self.crop[1]) // 2, (picture.height - self.crop[0]) // 2
            picture = picture.crop((left, top, left + self.crop[1], top + self.crop[0]))
        values = np.asarray(picture, dtype=np.float32).reshape(picture.height, picture.width, self.channels)
        values = np.array(values.transpose(2, 0, 1), dtype=np.float32, order="C")
        values *= np.float32(self.scale)
        if self.mean is not None and self.std is not None:
            mean, std = (np.asarray(numbers, dtype=np.float32)[:, None, None] for numbers in (self.mean, self.std))
            values -= mean
            values /= std
        return values

    def _target(self, old: tuple[int, int]) -> tuple[int, int]:
        if isinstance(self.size, tuple):
            return self.size[1], self.size[0]
        short = min(old)
        assert self.size is not None
        wide, high = (round(side * self.size / short) for side in old)
        if wide * high > MADE:
            raise UserError(f"a picture of {old[0]}×{old[1]} would become {wide}×{high}; {MADE:,} pixels at most are made")
        return wide, high


def _size(size: Any, where: str) -> tuple[int, int] | int:
    if isinstance(size, Mapping) and set(size) == {"shortest_edge"}:
        return _between(size["shortest_edge"], 1, WIDEST, "size.shortest_edge", where)
    if isinstance(size, Mapping) and not {"height", "width"} <= set(size):
        raise UserError(f"{where}: size is {dict(size)!r}; height and width, or shortest_edge, are read")
    return _pair(size, where)


def _pair(size: Any, where: str) -> tuple[int, int]:
    if isinstance(size, Mapping):
        size = size.get("height"), size.get("width")
    both = (size, size) if isinstance(size, int) else size
    if not isinstance(both, (list, tuple)) or len(both) != 2:
        raise UserError(f"{where}: a size is {size!r}, should be a height and a width")
    return _between(both[0], 1, WIDEST, "a height", where), _between(both[1], 1, WIDEST, "a width", where)


def _between(value: Any, least: int, most: int, name: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise UserError(f"{where}: {name} is {value!r}, should be a whole number from {least} to {most:,}")
    return value


def _number(value: Any, name: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e9:
        raise UserError(f"{where}: {name} is {value!r}, should be a number")
    return float(value)


def _numbers(settings: Mapping[str, Any], key: str, where: str) -> tuple[float, ...]:
    values = settings.get(key)
    if not isinstance(values, (list, tuple)):
        raise UserError(f"{where}: {key} should be a list with a number for each channel")
    return tuple(_number(value, key, where) for value in values)


def _opened(image: Any, mode: str) -> Any:
    """A picture with its pixels in memory, in one of PIL's modes."""
    try:
        from PIL import Image
    except ImportError:
        raise UserError("reading pictures needs Pillow; install it with pip install 'regard[images]'") from None
    if not isinstance(image, (str, Path)):
        return (Image.fromarray(np.asarray(image)) if isinstance(image, np.ndarray) else image).convert(mode)
    if Path(image).exists() and not Path(image).is_file():
        raise UserError(f"{image}: is not a file")
    try:
        with Path(image).open("rb") as file:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of sizes, which are looked at here
                picture = Image.open(file)
            if picture.width * picture.height > PIXELS:
                raise UserError(f"{image}: has {picture.width}×{picture.height} pixels; {PIXELS:,} at most are read")
            return picture.convert(mode)
    except UserError:
        raise
    except OSError as error:
        reason = error.strerror or "is no picture that Pillow knows, or is cut off"
        raise UserError(f"{image}: cannot be opened ({reason})") from None
    except Exception as error:  # Pillow has many ways to say that a file is broken
        raise UserError(f"{image}: cannot be opened ({' '.join(str(error).split())[:200]})") from None
