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

from regard.training.loop import _Stop

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # benchmarks are no installed package

from benchmarks.forks import Processes, said  # noqa: E402
from benchmarks.reliability import CASES, RANKS, armed  # noqa: E402

START = ("-m", "benchmarks", "reliability")


def harness(kills: int, seed: int, place: Path, *more: str, start: tuple[str, ...] = START) -> dict[str, Any]:
    """The report of `python -m benchmarks reliability`."""
    environment = dict(os.environ) | {"PYTHONPATH": f"{ROOT / 'src'}", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *start, f"--kills={kills}", f"--seed={seed}", "--json=-", f"--place={place}", *more]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert ended.returncode in (0, 1), ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    return report


def test_s_res_03_s_cli_04_a_few_kills(tmp_path: Path) -> None:
    """S-RES-03, S-CLI-04: at moments drawn by chance, of all kinds, with checkpoints damaged in between; of one process and
    of two ranks."""
    report = harness(10, 7, tmp_path)
    assert report["total"] >= 10
    assert report["cases"].keys() & RANKS.keys()
    assert report["failures"] == []


FORGETFUL = """
import sys
from benchmarks import reliability
from regard.training import resume
resume.load_random = lambda tensors, rank=0: None
reliability.MOMENTS = ("in a step",)
sys.exit(reliability.main(sys.argv[1:]))
"""


def test_a_resumed_run_that_differs_is_found(tmp_path: Path) -> None:
    """The harness itself: a training whose resumed part forgets the random states does not pass."""
    report = harness(4, 3, tmp_path, "--case=plain", start=("-c", FORGETFUL))
    assert report["failures"]
    assert all("weights" in failure for failure in report["failures"])


def test_of_two_processes_both_die(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is killed while the other waits; one is stopped by Ctrl-C and the other leaves by itself; one fails, and that is
    what is told."""
    monkeypatch.chdir(tmp_path)

    def killed(rank: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL) if rank == 1 else time.sleep(60)

    def stopped(rank: int) -> None:
        time.sleep(0.2 * rank)
        raise KeyboardInterrupt

    def failing(rank: int) -> None:
        if rank == 1:
            raise ValueError("the fault")
        time.sleep(60)

    assert Processes(killed, 2).wait() == -signal.SIGKILL
    assert Processes(stopped, 2).wait() == 130
    assert Processes(failing, 2).wait() == 1
    assert "ValueError: the fault" in said()
    assert Processes(lambda rank: time.sleep(60)).wait(seconds=0.05) is None
    assert Processes(lambda rank: None, 2).wait() == 0


def test_a_moment_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def work(rank: int) -> None:
        armed("at a file", 3, tmp_path / "run")
        (tmp_path / "run").mkdir()
        for name in "abcd":
            (tmp_path / "run" / name).write_text("x")

    assert Processes(work).wait() == -signal.SIGKILL
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["a"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_s_res_03_s_cli_04_two_hundred_kills(tmp_path: Path, seed: int) -> None:
    """S-RES-03, S-CLI-04: every kind of moment, every case of training, every kind of damage."""
    report = harness(200, seed, tmp_path)
    assert report["total"] >= 200
    assert len(report["kills"]) == 9
    assert min(report["kills"].values()) >= 4
    assert report["cases"].keys() == CASES.keys()
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
