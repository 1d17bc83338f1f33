"""Manners at the terminal: what stands at the three ends, and what is left when one of them goes away."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from regard.cli.streams import WINDOW, lines_of
from regard.errors import UserError
from regard.text.lines import LONGEST

ROOT = Path(__file__).resolve().parents[2]
FAKE = (ROOT / "tests" / "cli" / "capitals.py").read_text(encoding="utf-8")
COLOUR = re.compile(rb"\x1b\[[0-9;]*[1-9][0-9;]*m")


def environment(**more: str) -> dict[str, str]:
    return dict(os.environ) | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"} | more


def shell(line: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """A line of a shell, in which $FAKE translates into capitals without a model."""
    more |= {"FAKE": FAKE, "PYTHON": sys.executable}
    return subprocess.run(["sh", "-c", line], capture_output=True, env=environment(**more), timeout=120)


@pytest.mark.parametrize(
    ("line", "code", "out", "said"),
    [
        ('"$PYTHON" -c "$FAKE" <&-', 0, b"", b""),
        ('echo one | "$PYTHON" -c "$FAKE" 2>&-', 0, b"ONE\n", b""),
        ('echo one | "$PYTHON" -c "$FAKE" >&-', 2, b"", b"stdout is closed"),
        ('"$PYTHON" -c "$FAKE" one <&- 2>&-', 0, b"ONE\n", b""),
    ],
    ids=["stdin", "stderr", "stdout", "both"],
)
def test_ends_that_were_never_open(line: str, code: int, out: bytes, said: bytes) -> None:
    found = shell(line)
    assert (found.returncode, found.stdout) == (code, out)
    assert said in found.stderr
    assert b"Traceback" not in found.stderr


def test_a_full_device(tmp_path: Path) -> None:
    found = shell('echo one | "$PYTHON" -c "$FAKE" >/dev/full')
    assert found.returncode == 2
    assert b"No space left on device" in found.stderr
    assert b"Traceback" not in found.stderr


class Endless:
    """A stream that says the same line for ever, and counts what was taken."""

    def __init__(self, block: bytes) -> None:
        self.block, self.taken = block, 0

    def read1(self, size: int) -> bytes:
        self.taken += len(self.block)
        return self.block

    read = read1


def test_an_input_without_end_is_answered_as_it_comes() -> None:
    """Ten thousand windows of a stream that never ends take no more memory than ten."""
    stream = Endless(b"yes and no and yes again\n" * 4000)
    lines: Iterator[list[str]] = lines_of(stream, "stdin")  # type: ignore[arg-type]
    for chunk in islice(lines, 10):
        assert 0 < len(chunk) <= WINDOW
    tracemalloc.start()
    try:
        for _ in islice(lines, 200):
            pass
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()
    assert stream.taken > 5 << 20


def test_a_line_without_end_is_refused() -> None:
    with pytest.raises(UserError, match=f"stdin, line 3: has more than {LONGEST:,} bytes"):
        list(_after_two_lines())


def _after_two_lines() -> Iterator[list[str]]:
    class Long(Endless):
        def read1(self, size: int) -> bytes:
            first = not self.taken
            self.taken += 1
            return b"one\ntwo\n" if first else self.block

    return lines_of(Long(b"x" * (1 << 20)), "stdin")  # type: ignore[arg-type]


@pytest.mark.parametrize("most", [16, pytest.param(1024, marks=pytest.mark.slow)])
def test_a_large_input_takes_no_more_memory_than_a_small_one(most: int) -> None:
    """Sixteen megabytes, or a gigabyte, through the command, against one: the same peak but for a few megabytes."""
    peaks = []
    for megabytes in (1, most):
        process = subprocess.Popen(
            [sys.executable, "-c", FAKE], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment()
        )
        assert process.stdin is not None
        for _ in range(megabytes * 16):
            process.stdin.write((b"x" * 1023 + b"\n") * 64)
        process.stdin.flush()
        end = time.monotonic() + 60 + most
        status = Path(f"/proc/{process.pid}/status")
        before = -1
        while time.monotonic() < end:  # until it has taken all and rests
            time.sleep(0.2)
            ticks = sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().split(") ")[1].split()[11:13]))
            if ticks == before and ticks > 0:
                break
            before = ticks
        peaks.append(int(re.findall(r"VmHWM:\s+(\d+)", status.read_text())[0]) >> 10)
        process.stdin.close()
        assert process.wait(60) == 0
    assert peaks[1] - peaks[0] < 12


def at_a_terminal(command: list[str], columns: int, **more: str) -> tuple[int, bytes]:
    """Exit code and all that a command writes at a terminal of so many columns."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=environment(**more))
    os.close(child)
    found = b""
    with contextlib.suppress(OSError):  # a terminal whose other end is closed
        while data := os.read(parent, 1 << 16):
            found += data
    os.close(parent)
    return process.wait(600), found


@pytest.mark.parametrize("columns", [1, 10, 20])
@pytest.mark.parametrize("line", ["--help", "translate --help", "train --help", "translate nowhere one", "nonsense"])
def test_terminals_of_any_width(columns: int, line: str) -> None:
    """Help and refusals at a terminal of one column: no verb falls over its own tables."""
    command = [sys.executable, "-m", "regard", *line.split()]
    code, said = at_a_terminal(command, columns, TERM="xterm", LANG="C", LC_ALL="C")
    assert code == (0 if "--help" in line else 2)
    assert b"Traceback" not in said
    assert said.strip()


def test_a_narrow_terminal_without_colours(toy: Path, tmp_path: Path) -> None:
    """NO_COLOR at a terminal of 20 columns: the training ends, and no colour is written."""
    command = [sys.executable, "-m", "regard", "train", str(toy), f"output={tmp_path / 'out'}"]
    code, said = at_a_terminal(command, 20, NO_COLOR="1", TERM="xterm", LANG="C", LC_ALL="C")
    assert code == 0, said
    assert not COLOUR.search(said)
    assert b"Traceback" not in said
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_whoever_watches_may_leave(toy: Path, tmp_path: Path) -> None:
    """`regard train … 2>&1 | head -1`: the training goes on to its end without its reader."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "regard", "train", str(toy), f"output={tmp_path / 'out'}"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=writing, stderr=writing, env=environment())
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    assert process.wait(600) == 0
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_a_job_that_ignores_hang_ups_goes_on(toy: Path, tmp_path: Path) -> None:
    """nohup: the closing of the terminal is nothing to such a job."""
    command = [sys.executable, "-m", "regard", "train", str(toy), f"output={tmp_path / 'out'}", "training.max_steps=30"]
    process = subprocess.Popen(
        ["nohup", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(), cwd=tmp_path
    )
    end = time.monotonic() + 120
    while not list((tmp_path / "out" / "checkpoints").glob("step-*")) and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGHUP)
    assert process.wait(600) == 0
    assert (tmp_path / "out" / "model.safetensors").is_file()
