"""preprocessor_config.json: how pictures become the numbers that a model of images reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import UserError

PREPROCESSOR = "preprocessor_config.json"

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
        mean, std = (tuple(settings[key]) if normal else None for key in ("image_mean", "image_std"))
        for name, values in (("image_mean", mean), ("image_std", std)):
            if values is not None and len(values) != channels:
                raise UserError(f"{where}: {name} has {len(values)} numbers, the model reads {channels} channels")
        return cls(
            channels,
            None if size is None else _size(size, where),
            settings.get("resample", 2),
            _pair(settings.get("crop_size", {"height": 224, "width": 224})) if settings.get("do_center_crop") else None,
            settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 1.0,
            mean,
            std,
        )

    def pixels(self, image: Any) -> np.ndarray:
        """Float32[C H W] of a file's path, a PIL image or an array (H W, H W C, 0 to 255). UserError: it cannot be opened,
        or Pillow is missing."""
        picture = _opened(image).convert("L" if self.channels == 1 else "RGB")
        if self.size is not None:
            picture = picture.resize(self._target(picture.size), self.resample)
        if self.crop is not None:
            left, top = (picture.width - self.crop[1]) // 2, (picture.height - self.crop[0]) // 2
            picture = picture.crop((left, top, left + self.crop[1], top + self.crop[0]))
        values = np.asarray(picture, dtype=np.float32).reshape(picture.height, picture.width, self.channels)
        values = values.transpose(2, 0, 1) * np.float32(self.scale)
        if self.mean is not None and self.std is not None:
            mean, std = (np.asarray(numbers, dtype=np.float32)[:, None, None] for numbers in (self.mean, self.std))
            values = (values - mean) / std
        return np.ascontiguousarray(values, dtype=np.float32)

    def _target(self, old: tuple[int, int]) -> tuple[int, int]:
        if isinstance(self.size, tuple):
            return self.size[1], self.size[0]
        short = min(old)
        assert self.size is not None
        return (round(old[0] * self.size / short), round(old[1] * self.size / short))


def _size(size: Any, where: str) -> tuple[int, int] | int:
    if isinstance(size, Mapping) and set(size) == {"shortest_edge"}:
        return int(size["shortest_edge"])
    if isinstance(size, Mapping) and not {"height", "width"} <= set(size):
        raise UserError(f"{where}: size is {dict(size)!r}; height and width, or shortest_edge, are read")
    return _pair(size)


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        return int(size["height"]), int(size["width"])
    return (int(size), int(size)) if isinstance(size, int) else (int(size[0]), int(size[1]))


def _opened(image: Any) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise UserError("reading pictures needs Pillow; install it with pip install 'regard[images]'") from None
    if isinstance(image, (str, Path)):
        try:
            return Image.open(image)
        except OSError as error:
            reason = error.strerror or "is no picture that Pillow knows"
            raise UserError(f"{image}: cannot be opened ({reason})") from None
    return Image.fromarray(np.asarray(image)) if isinstance(image, np.ndarray) else image
