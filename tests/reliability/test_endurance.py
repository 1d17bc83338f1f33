"""Long runs in short: the script `benchmarks/endurance.py` measures all of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks are no installed package

from benchmarks.endurance import Sample, grows, growth, trained, translated  # noqa: E402


def test_handles_and_threads_stay_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    training, folder = trained(tmp_path, 40)
    sentences = translated(folder, 200)
    for found in (training, sentences):
        assert len(found) >= 3
        assert growth(found)["handles"] <= 0
        assert growth(found)["threads"] <= 0


@pytest.mark.slow
def test_nothing_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    training, folder = trained(tmp_path, 2000)
    assert not grows(training), training
    sentences = translated(folder, 20_000)
    assert not grows(sentences), sentences


@pytest.mark.parametrize(
    ("more", "verdict"), [((0, 0, 0), False), ((4, 0, 0), False), ((6, 0, 0), True), ((0, 1, 0), True), ((0, 0, 1), True)]
)
def test_what_counts_as_growth(more: tuple[int, int, int], verdict: bool) -> None:
    early, late = Sample(10, 100.0, 12, 3), Sample(100, 100.0 + more[0], 12 + more[1], 3 + more[2])
    assert grows([Sample(0, 50.0, 9, 1), early, late]) is verdict
