"""Trainings killed at any moment: the resumed run cannot be told from one that was never stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from regard.training.loop import _Stop

ROOT = Path(__file__).resolve().parents[2]


def harness(kills: int, seed: int, place: Path) -> dict[str, Any]:
    """The report of `python -m benchmarks reliability`."""
    environment = dict(os.environ) | {"PYTHONPATH": f"{ROOT / 'src'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks", "reliability", f"--kills={kills}", f"--seed={seed}", "--json=-"]
    ended = subprocess.run([*command, f"--place={place}"], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert ended.returncode in (0, 1), ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def test_s_res_03_s_cli_04_a_few_kills(tmp_path: Path) -> None:
    """S-RES-03, S-CLI-04: at moments drawn by chance, of all kinds, with checkpoints damaged in between."""
    report = harness(10, 7, tmp_path)
    assert report["total"] >= 10
    assert report["failures"] == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_s_res_03_s_cli_04_two_hundred_kills(tmp_path: Path, seed: int) -> None:
    """S-RES-03, S-CLI-04: every kind of moment, every case of training, every kind of damage."""
    report = harness(200, seed, tmp_path)
    assert report["total"] >= 200
    assert len(report["kills"]) == 9
    assert min(report["kills"].values()) >= 4
    assert len(report["cases"]) == 8
    assert len(report["damaged"]) == 3
    assert report["failures"] == []


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_s_cli_04_twice_leaves_at_once(capfd: pytest.CaptureFixture[str], kind: signal.Signals) -> None:
    """S-CLI-04: after the first, any of the signals ends the process as if nobody had asked for them; when a training is
    over they mean what they meant before."""
    three = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    hangs_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests too may be run by nohup
    before = [signal.getsignal(number) for number in three]
    with _Stop() as stop:
        assert stop.signal is None
        os.kill(os.getpid(), kind)
        assert stop.signal == kind
        assert [signal.getsignal(number) for number in three] == [signal.SIG_DFL] * 3
    assert [signal.getsignal(number) for number in three] == before
    signal.signal(signal.SIGHUP, hangs_up)
    assert "stopping after this update; once more to leave at once" in capfd.readouterr().err
