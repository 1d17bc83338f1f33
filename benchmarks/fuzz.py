"""Feed every reader of files damaged and hostile ones: `python -m benchmarks fuzz --seconds 600 --place FOLDER`

A reader may answer, or refuse in one line (UserError). Anything else, 400 MB of memory or ten seconds for one small file, is
a crash and is kept. Inputs grow out of valid ones: bytes are flipped, cut and doubled, values of JSON are replaced by the
worst that somebody could think of, and what reaches lines of regard that nothing has reached before is kept and changed
further. A part of the time hypothesis draws them. Each reader is fed in a process of its own, for libraries of C may end it.

With --place an hour can be made in pieces: the folder keeps what reached new lines (no more than is needed to reach all of
them), what crashed (and is tried again each time, until it no longer does) and the totals of all pieces.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

from benchmarks.changes import changed
from benchmarks.measure import machine, peak
from regard.errors import UserError
from regard.files import write_json

SOURCE = str(Path(__file__).resolve().parents[1] / "src" / "regard")
MEMORY, SECONDS = 400, 10
"""Megabytes and seconds that one input may cost."""
ROOM = 4 << 30
"""Bytes of address space that a reader gets beside what is there before."""
LARGE = 1 << 16
"""Bytes that an input may have to be kept and changed further."""
DRAWN = 0.25
"""Share of the time in which hypothesis draws the inputs."""
DEATHS = 10
"""So many times may a reader end its process before it is left."""
NOTED = 100
"""Inputs between two notes of how far a process is."""
CRASHES, KEPT, FOUND, TOTALS = "crashes", "kept", "found.json", "totals.json"


@dataclass
class Reader:
    """What is fed. make(folder): a folder with valid files; names: those that are changed; read(folder): the reader."""

    make: Callable[[Path], None]
    names: list[str]
    read: Callable[[Path], Any]


@dataclass
class Found:
    """What fuzzing a reader gave. tries: inputs, drawn: those of hypothesis. lines: of regard that were reached. crashes:
    input's file -> what happened. mended: inputs that once crashed and no longer do."""

    tries: int = 0
    drawn: int = 0
    refused: int = 0
    lines: int = 0
    seconds: float = 0.0
    mended: int = 0
    crashes: dict[str, str] = field(default_factory=dict)


class Trace:
    """Which lines of regard are reached."""

    def __init__(self) -> None:
        self.seen: set[tuple[CodeType, int]] = set()
        self.new = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self.local if frame.f_code.co_filename.startswith(SOURCE) else None

    def local(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Count a line of a function of regard."""
        place = frame.f_code, frame.f_lineno
        if place not in self.seen:
            self.seen.add(place)
            self.new += 1
        return self.local


class Slow(BaseException):  # not to be caught by what catches all errors
    """An input took too long."""


def _late(number: int, frame: FrameType | None) -> None:
    raise Slow


def fed(reader: Reader, folder: Path, trace: Trace | None = None) -> tuple[str, str]:
    """What a reader makes of a folder: ("read" or "refused", ""), or ("crash", what happened)."""
    before, late = peak(anew=True), f"more than {SECONDS} seconds"
    for number, timer, seconds in (
        (signal.SIGVTALRM, signal.ITIMER_VIRTUAL, SECONDS),
        (signal.SIGALRM, signal.ITIMER_REAL, 60),
    ):
        signal.signal(number, _late)
        signal.setitimer(timer, seconds)
    tracing = sys.gettrace()
    try:
        if trace is not None:
            sys.settrace(trace)
        reader.read(folder)
        answer = "read", ""
    except UserError as error:
        answer = ("refused", str(error)) if "\n" not in str(error) else ("crash", f"more than one line: {error}")
    except Slow:
        answer = "crash", late
    except BaseException as error:  # a panic in Rust is no Exception
        answer = "crash", _told(error)
    finally:
        sys.settrace(tracing)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
    if answer[1] == late and trace is not None:  # following each line takes ten times as long
        return fed(reader, folder)
    grown = peak() - before
    return answer if grown < MEMORY else ("crash", f"{grown:.0f} MB of memory")


def _told(error: BaseException) -> str:
    every = traceback.extract_tb(error.__traceback__)
    last = ([frame for frame in every if frame.filename.startswith(SOURCE)] or every)[-1]
    return f"{Path(last.filename).name}:{last.lineno} {type(error).__name__}: {' '.join(str(error).split())[:160]}"


def keep(folder: Path, name: str, data: bytes) -> Path:
    """Write the content of a file of this name into a folder of such; gives its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}~{name.replace('/', '~')}"
    path.write_bytes(data)
    return path


def keep_crash(place: Path, name: str, data: bytes) -> str:
    """Keep what crashed; gives its path in `place`."""
    return str(keep(place / CRASHES, name, data).relative_to(place))


def plain_name(path: Path) -> str:
    """The name of the file that `keep` wrote."""
    return path.name.partition("~")[2].replace("~", "/")


class Feeding:
    """One reader, its folder of valid files, and what it was fed so far."""

    def __init__(self, reader: Reader, place: Path) -> None:
        self.reader, self.place = reader, place
        self.found, self.trace = Found(), Trace()
        self.good, self.work = place / "good", place / "work"
        for folder in (self.good, self.work):
            shutil.rmtree(folder, ignore_errors=True)
        self.good.mkdir(parents=True)
        reader.make(self.good)
        shutil.copytree(self.good, self.work)
        reader.read(self.work)  # what is imported now takes no time later
        answer, what = fed(reader, self.work, self.trace)
        if answer != "read":
            raise RuntimeError(f"the valid input is not read: {answer} {what}")
        self.valid = {name: (self.good / name).read_bytes() for name in reader.names}
        self.kept = {name: [data] for name, data in self.valid.items()}

    def take(self, name: str, data: bytes) -> tuple[bool, str]:
        """Feed one file. Gives whether it reached new lines, and what crashed ("": nothing)."""
        (self.work / name).write_bytes(data)
        self.trace.new = 0
        answer, what = fed(self.reader, self.work, self.trace)
        (self.work / name).write_bytes(self.valid[name])
        self.found.tries += 1
        self.found.refused += answer == "refused"
        self.found.lines = len(self.trace.seen)
        if self.found.tries % NOTED == 0:
            self.note()
        if answer == "crash":
            self._keep_crash(name, data, what)
        elif self.trace.new and len(data) < LARGE:
            self.kept[name].append(data)
            keep(self.place / KEPT, name, data)
        return self.trace.new > 0, what if answer == "crash" else ""

    def _keep_crash(self, name: str, data: bytes, what: str) -> None:
        if what.split(":")[0:2] not in [old.split(":")[0:2] for old in self.found.crashes.values()]:
            self.found.crashes[keep_crash(self.place, name, data)] = what

    def restore(self) -> None:
        """Take what earlier pieces kept, the smallest first: what reaches nothing new any more goes, and so does what no
        longer crashes."""
        for path in sorted((self.place / CRASHES).glob("*")):
            data, name = path.read_bytes(), plain_name(path)
            path.unlink()
            self.found.mended += not self.take(name, data)[1]
        kept = [(plain_name(path), path.read_bytes()) for path in (self.place / KEPT).glob("*")]
        shutil.rmtree(self.place / KEPT, ignore_errors=True)
        for name, data in sorted(kept, key=lambda one: len(one[1])):
            self.take(name, data)
        self.found.tries = self.found.refused = 0

    def note(self) -> None:
        """Write down how far this is, for whoever started the process."""
        write_json(self.place / FOUND, asdict(self.found))

    def guided(self, draw: random.Random, seconds: float = 1e9, tries: int = 10**9) -> None:
        """Change what is kept, for a time or so many times."""
        end, last = time.monotonic() + seconds, self.found.tries + tries
        while self.found.tries < last and time.monotonic() < end:
            name = draw.choice(self.reader.names)
            self.take(name, changed(name, draw.choice(self.kept[name]), draw))

    def drawn(self, seed: int, seconds: float = 1e9, tries: int = 10**9) -> None:
        """Have hypothesis change the valid files."""
        from benchmarks.values import draw_files

        end, last = time.monotonic() + seconds, self.found.tries + tries

        def one(name: str, data: bytes) -> bool:
            self.take(name, data)
            self.found.drawn += 1
            return self.found.tries < last and time.monotonic() < end

        draw_files(self.valid, seed, one)


def fuzz(reader: Reader, place: Path, draw: random.Random, seconds: float = 1e9, tries: int = 10**9) -> Found:
    """Feed one reader for a time, or so many inputs, in this process. What crashes it stays in `place`."""
    feeding = Feeding(reader, place)
    feeding.guided(draw, seconds, tries)
    return feeding.found


def apart(work: Callable[[], None]) -> int:
    """Do some work in a fork of this process, with ROOM for what it makes; gives its exit code, or the negative signal that
    ended it."""
    child = os.fork()
    if not child:
        code = 1
        try:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            most = pages * os.sysconf("SC_PAGE_SIZE") + ROOM
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def piece(reader: Reader, place: Path, seed: str, seconds: float, tries: int = 10**9) -> Found:
    """Go on with a reader for a time, from what earlier pieces left in `place`."""
    end, found = time.monotonic() + seconds, Found()
    deadly = {path: path.read_bytes() for path in (place / "deadly").glob("*")}
    for path, data in deadly.items():
        path.unlink()
        if (code := apart(partial(_once, reader, place, plain_name(path), data))) == 0:
            found.mended += 1
        else:
            found.crashes[str(keep(place / "deadly", plain_name(path), data).relative_to(place))] = _ended(code)
    for number in range(DEATHS):
        left = end - time.monotonic()
        if left <= 0 or found.tries >= tries:
            break
        (place / FOUND).unlink(missing_ok=True)
        code = apart(partial(_both, reader, place, f"{seed} {number}", left, tries))
        if (place / FOUND).is_file():
            _add(found, Found(**json.loads((place / FOUND).read_text(encoding="utf-8"))))
        if code == 0:
            break
        different = [name for name in reader.names if _read(place / "work" / name) != _read(place / "good" / name)]
        if not different:
            raise RuntimeError(f"{place}: {_ended(code)} before anything was fed")
        path = keep(place / "deadly", different[0], _read(place / "work" / different[0]))
        found.crashes[str(path.relative_to(place))] = _ended(code)
    found.seconds = round(seconds - max(end - time.monotonic(), 0.0), 1)
    return found


def _both(reader: Reader, place: Path, seed: str, seconds: float, tries: int) -> None:
    end = time.monotonic() + seconds
    feeding = Feeding(reader, place)
    with contextlib.redirect_stderr(io.StringIO()):
        feeding.restore()
        draw = random.Random(seed)
        feeding.drawn(draw.getrandbits(32), DRAWN * seconds, max(int(DRAWN * tries), 1))
        feeding.guided(draw, end - time.monotonic(), tries - feeding.found.tries)
    feeding.note()


def _once(reader: Reader, place: Path, name: str, data: bytes) -> None:
    with contextlib.redirect_stderr(io.StringIO()):
        if Feeding(reader, place).take(name, data)[1]:
            raise RuntimeError(name)


def _ended(code: int) -> str:
    return f"the process ended with {code}"


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _add(found: Found, more: Found) -> None:
    """Count what another process or piece found, which knows what crashes now."""
    for name in ("tries", "drawn", "refused", "mended"):
        setattr(found, name, getattr(found, name) + getattr(more, name))
    found.seconds = round(found.seconds + more.seconds, 1)
    found.lines = max(found.lines, more.lines)
    found.crashes |= more.crashes


def main(arguments: list[str]) -> int:
    """Feed the readers; exit code 1 if one crashed."""
    from benchmarks.readers import READERS

    parser = argparse.ArgumentParser(prog="benchmarks fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for all readers together")
    parser.add_argument("--tries", type=int, default=10**9, help="for each reader")
    parser.add_argument("--reader", action="append", choices=sorted(READERS), help="these alone")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--place", type=Path, help="keep inputs and totals here, and go on from those that are there")
    parser.add_argument("--json", help="write the totals here; '-': stdout")
    its = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    names = its.reader or sorted(READERS)
    with contextlib.nullcontext(its.place) if its.place else tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        told = json.loads((place / TOTALS).read_text(encoding="utf-8")) if (place / TOTALS).is_file() else {}
        totals = {name: Found(**found) for name, found in told.items()}
        for name in names:
            before = totals.get(name, Found())
            found = piece(READERS[name], place / name, f"{its.seed} {before.tries}", its.seconds / len(names), its.tries)
            before.crashes = {}
            _add(before, found)
            totals[name] = before
            write_json(place / TOTALS, {key: asdict(value) for key, value in totals.items()})
            print(f"{name}: {found.tries} inputs, {found.refused} refused, {found.lines} lines", file=sys.stderr)
            for file, what in found.crashes.items():
                print(f"  {file}: {what}", file=sys.stderr)
    if its.json:
        write_json(its.json, {"machine": machine(), "readers": {name: asdict(its) for name, its in totals.items()}})
    return 1 if any(found.crashes for found in totals.values()) else 0
