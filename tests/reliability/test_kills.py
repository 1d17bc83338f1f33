"""Trainings killed at any moment: the resumed run cannot be told from one that was never stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGHUP])
def test_s_cli_04_twice_leaves_at_once(toy: Path, tmp_path: Path, kind: signal.Signals) -> None:
    """S-CLI-04: the second Ctrl-C does not wait; what was saved before is there, and goes on."""
    command = [sys.executable, "-m", "regard", "train", str(toy), f"output={tmp_path / 'out'}", "training.max_steps=100000"]
    environment = dict(os.environ) | {"PYTHONPATH": f"{ROOT / 'src'}"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
    end = time.monotonic() + 120
    while not list((tmp_path / "out" / "checkpoints").glob("step-*")) and time.monotonic() < end:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGSTOP)  # so that both signals wait for it together
    process.send_signal(kind)
    process.send_signal(signal.SIGTERM)
    os.kill(process.pid, signal.SIGCONT)
    process.wait(timeout=60)
    assert process.returncode in (-kind, -signal.SIGTERM)
    more = [f"training.max_steps={len(list((tmp_path / 'out' / 'checkpoints').glob('step-*')))}", "--resume"]
    ended = subprocess.run([*command[:-1], *more], capture_output=True, text=True, env=environment)
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "out" / "model.safetensors").is_file()
