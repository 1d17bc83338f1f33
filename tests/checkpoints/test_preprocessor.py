"""Pictures to numbers, as transformers' processors do it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.checkpoints.preprocessor import Preparation
from regard.errors import UserError

image = pytest.importorskip("PIL.Image")
SETTINGS: dict[str, Any] = {
    "do_resize": True,
    "size": {"height": 24, "width": 16},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.4, 0.5, 0.6],
    "image_std": [0.2, 0.3, 0.4],
}


def picture(*shape: int) -> Any:
    return image.fromarray(np.random.default_rng(sum(shape)).integers(0, 256, shape, dtype=np.uint8))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", [(30, 40, 3), (24, 16, 3), (50, 9), (12, 12, 4)])
@pytest.mark.parametrize("change", [{}, {"do_normalize": False}, {"do_resize": False}, {"resample": 3}])
def test_numbers_equal_transformers(shape: tuple[int, ...], change: dict[str, Any]) -> None:
    transformers = pytest.importorskip("transformers")
    settings = SETTINGS | change
    its = picture(*shape)
    want = transformers.ViTImageProcessorPil(**settings)(its.convert("RGB"), return_tensors="np").pixel_values[0]
    got = Preparation.of(settings, 3).pixels(its)
    assert got.shape == want.shape
    assert np.abs(got - want).max() < 1e-5


def test_one_channel_and_crops() -> None:
    settings = {
        "do_resize": True,
        "size": {"shortest_edge": 20},
        "do_center_crop": True,
        "crop_size": 12,
        "do_normalize": False,
    }
    got = Preparation.of(settings, 1).pixels(picture(40, 60, 3))
    assert (got.shape, got.dtype) == ((1, 12, 12), np.float32)
    assert 0 <= got.min() <= got.max() <= 1


def test_paths_and_arrays(tmp_path: Path) -> None:
    its = picture(30, 40, 3)
    its.save(tmp_path / "a.png")
    prepare = Preparation.of(SETTINGS, 3)
    for one in (tmp_path / "a.png", str(tmp_path / "a.png"), np.asarray(its)):
        assert (prepare.pixels(one) == prepare.pixels(its)).all()


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for settings, says in (
        (None, "is missing; it says how pictures become numbers"),
        ({}, "is missing"),
        (SETTINGS | {"do_pad": True}, "do_pad is True"),
        (SETTINGS | {"size": {"longest_edge": 3}}, "height and width, or shortest_edge"),
    ):
        with pytest.raises(UserError, match=says):
            Preparation.of(settings, 3)
    with pytest.raises(UserError, match="image_mean has 3 numbers, the model reads 1 channels"):
        Preparation.of(SETTINGS, 1)
    prepare = Preparation.of(SETTINGS, 3)
    with pytest.raises(UserError, match=r"nowhere.png: cannot be opened"):
        prepare.pixels(tmp_path / "nowhere.png")
    (tmp_path / "a.png").write_bytes(b"text")
    with pytest.raises(UserError, match=r"a.png: cannot be opened \(is no picture"):
        prepare.pixels(tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match=r"pip install 'regard\[images\]'"):
        prepare.pixels(tmp_path / "a.png")
